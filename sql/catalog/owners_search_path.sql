-- The search_path of the sessions of a table's owner, in a database under psp.
SELECT psp.search_path_of(c.relowner, c.relnamespace) FROM pg_catalog.pg_class c WHERE c.oid = %s::pg_catalog.regclass
