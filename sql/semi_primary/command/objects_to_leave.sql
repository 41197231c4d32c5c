-- psp schema join --schema-from: what the schema of this semi-primary has, and one that joins is not to take from it. label null: psp's own, and what goes
-- with an object. Others are here only, as far as can be told: captured tables neither have them nor rely on them, and no word of `words`, in
-- small letters, is their name. These are the words of the adopted schema and of all schema changes. docs/decisions/73.
WITH RECURSIVE members AS MATERIALIZED (
    SELECT classid, objid FROM pg_depend WHERE deptype = 'e'
), schemas AS (
    SELECT n.oid FROM pg_namespace n
     WHERE n.nspname NOT IN ('psp', 'psp_dblink', 'information_schema') AND n.nspname !~ '^pg_'
), own(classid, objid) AS (
    SELECT 'pg_trigger'::regclass::oid, t.oid FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid
     WHERE f.pronamespace = 'psp'::regnamespace AND NOT t.tgisinternal
    UNION ALL
    SELECT 'pg_event_trigger'::regclass, e.oid FROM pg_event_trigger e JOIN pg_proc f ON f.oid = e.evtfoid
     WHERE f.pronamespace = 'psp'::regnamespace
    UNION ALL
    SELECT 'pg_extension'::regclass, x.oid FROM pg_extension x JOIN pg_namespace n ON n.oid = x.extnamespace
     WHERE x.extname = 'dblink' AND n.nspname IN ('psp', 'psp_dblink')
), captured(classid, objid) AS MATERIALIZED (
    SELECT 'pg_class'::regclass::oid, r.relation FROM psp.captured_relations r
    UNION ALL SELECT 'pg_class'::regclass, q.relation FROM psp.sequences q
), candidates AS (
    SELECT d.classid, d.objid FROM pg_depend d JOIN schemas n ON n.oid = d.refobjid
     WHERE d.refclassid = 'pg_namespace'::regclass AND d.objsubid = 0 AND d.deptype = 'n'
    UNION ALL SELECT 'pg_namespace'::regclass, n.oid FROM schemas n
    UNION ALL SELECT 'pg_extension'::regclass, x.oid FROM pg_extension x
    UNION ALL SELECT 'pg_event_trigger'::regclass, e.oid FROM pg_event_trigger e
    UNION ALL SELECT 'pg_foreign_server'::regclass, s.oid FROM pg_foreign_server s
    UNION ALL SELECT 'pg_foreign_data_wrapper'::regclass, w.oid FROM pg_foreign_data_wrapper w
    UNION ALL SELECT 'pg_publication'::regclass, p.oid FROM pg_publication p
), unnamed AS MATERIALIZED (
    SELECT c.classid, c.objid, format('%%s %%s', i.type, i.identity) AS label
      FROM (SELECT * FROM candidates WHERE objid >= 16384 EXCEPT SELECT * FROM members EXCEPT SELECT * FROM own EXCEPT SELECT * FROM captured) c
     CROSS JOIN LATERAL pg_identify_object(c.classid, c.objid, 0) i
      LEFT JOIN pg_proc f ON c.classid = 'pg_proc'::regclass AND f.oid = c.objid
     WHERE lower(coalesce(f.proname, (parse_ident(i.name))[1])) NOT IN (SELECT w.word FROM unnest(%(words)s::text[]) w(word))
), alone AS (
    SELECT u.* FROM unnamed u
     WHERE psp.relied_on_by(u.classid, u.objid) IS NULL
       AND NOT EXISTS (SELECT FROM pg_depend d JOIN captured c ON (c.classid, c.objid) = (d.refclassid, d.refobjid)
                        WHERE (d.classid, d.objid) = (u.classid, u.objid) AND d.deptype IN ('a', 'i'))
    UNION ALL
    SELECT 'pg_class'::regclass, a.index, format('index %%I.%%I', n.nspname, a.name) FROM psp.indexes_alone a JOIN pg_namespace n ON n.oid = a.schema
    UNION ALL  -- jobs make them there
    SELECT 'pg_class'::regclass, c.oid, NULL
      FROM psp.jobs_of_indexes j JOIN pg_class c ON (c.relnamespace, c.relname) = (j.schema, j.name) WHERE j.state <> 'done'
), whole AS (
    SELECT a.classid, a.objid, a.label FROM alone a
    UNION
    SELECT d.classid, d.objid, NULL FROM whole w JOIN pg_depend d ON (d.refclassid, d.refobjid) = (w.classid, w.objid)
     WHERE d.deptype IN ('a', 'i', 'P')
)
SELECT classid::bigint, objid::bigint, NULL AS label FROM own
UNION ALL
SELECT w.classid::bigint, w.objid::bigint,
       min(w.label) FILTER (WHERE NOT EXISTS (SELECT FROM pg_depend d JOIN whole o ON (o.classid, o.objid) = (d.refclassid, d.refobjid)
                                               WHERE (d.classid, d.objid) = (w.classid, w.objid) AND d.deptype IN ('a', 'i', 'P')))
  FROM whole w GROUP BY w.classid, w.objid
