-- Whether transaction $1 has ended, one way or the other. (Null: so long ago that PostgreSQL has forgotten it.)
SELECT pg_xact_status($1::text::xid8) IS DISTINCT FROM 'in progress'
