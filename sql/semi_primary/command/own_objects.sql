-- What psp has made outside its own schemas: triggers, event triggers, the extension dblink. They are known by psp's functions, not by their names.
SELECT o.class::int8, o.object::int8 FROM (
    SELECT 'pg_catalog.pg_trigger'::regclass::oid, t.oid
      FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc f ON f.oid = t.tgfoid
     WHERE f.pronamespace = 'psp'::regnamespace AND NOT t.tgisinternal
    UNION ALL
    SELECT 'pg_catalog.pg_event_trigger'::regclass::oid, e.oid
      FROM pg_catalog.pg_event_trigger e JOIN pg_catalog.pg_proc f ON f.oid = e.evtfoid WHERE f.pronamespace = 'psp'::regnamespace
    UNION ALL
    SELECT 'pg_catalog.pg_extension'::regclass::oid, x.oid
      FROM pg_catalog.pg_extension x JOIN pg_catalog.pg_namespace n ON n.oid = x.extnamespace
     WHERE x.extname = 'dblink' AND n.nspname = ANY (%(schemas)s)
) o(class, object)
