-- psp primary verify, psp cluster verify: what every semi-primary must have alike, told by names and definitions. A server that has
-- joined has other OIDs, other numbers of columns, and other names for what PostgreSQL makes for a partition (clones of
-- triggers and foreign keys): those are left out. So is psp's own, and what may be local (docs/adopting.md).
WITH captured AS MATERIALIZED (
    SELECT c.*, format('%I.%I', n.nspname, c.relname) AS label
      FROM psp.captured_relations r JOIN pg_class c ON c.oid = r.relation JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname <> 'psp'
), guarded AS MATERIALIZED (
    SELECT format('%I.%I', s.schema_name, s.relation_name) AS label, s.*
      FROM psp.guarded_state(ARRAY(SELECT oid FROM captured)) s
     WHERE s.kind IN ('partition key', 'parent', 'column', 'unique index')
), used_types AS (
    SELECT t.* FROM pg_type t
     WHERE t.oid >= 16384 AND t.typtype IN ('c', 'd', 'e', 'r') AND t.typnamespace <> 'psp'::regnamespace
       AND NOT EXISTS (SELECT FROM pg_depend e WHERE (e.classid, e.objid, e.deptype) = ('pg_type'::regclass, t.oid, 'e'))
       AND psp.relied_on_by('pg_type'::regclass, t.oid) IS NOT NULL
)
SELECT 'catalog' AS kind, 'version' AS name, catalog_version::text AS definition FROM psp.identity
UNION ALL
SELECT 'captured table', format('%I.%I', schema_name, table_name),
       concat_ws(' ', table_id, jsonb_build_object('columns', columns, 'key', key_columns, 'guards', guards))
  FROM psp.tables
UNION ALL
SELECT 'relation', label,
       concat_ws(' ', relkind, relpersistence, relforcerowsecurity, nullif(reloftype, 0)::regtype) FROM captured
UNION ALL
SELECT 'owner', label, pg_get_userbyid(relowner) FROM captured
UNION ALL
SELECT kind, label, concat_ws(' ', name, definition) FROM guarded WHERE kind IN ('partition key', 'parent')
UNION ALL
SELECT 'unique index', format('%s: %I', label, name), definition FROM guarded WHERE kind = 'unique index'
UNION ALL  -- in place of its number: its place among the columns that there are
SELECT 'column', format('%s.%I', label, name),
       concat_ws(' ', row_number() OVER (PARTITION BY label ORDER BY split_part(definition, ' ', 1)::integer),
                 substring(definition FROM ' (.*)'))
  FROM guarded WHERE kind = 'column'
UNION ALL  -- (NOT NULL is told of its column: before PostgreSQL 18 it is no constraint)
SELECT 'constraint', format('%s: %I', c.label, k.conname), pg_get_constraintdef(k.oid)
  FROM captured c JOIN pg_constraint k ON k.conrelid = c.oid WHERE k.conparentid = 0 AND (k.contype <> 'n' OR NOT k.convalidated)
UNION ALL
SELECT 'trigger', format('%s: %I', c.label, f.name), concat_ws(' ', coalesce(a.enabled, f.enabled), pg_get_triggerdef(t.oid))
  FROM captured c JOIN psp.trigger_facts f ON f.relation = c.oid
  JOIN pg_trigger t ON (t.tgrelid, t.tgname) = (f.relation, f.name)
  LEFT JOIN psp.triggers_aside a ON (a.relation, a.name, 'O') = (f.relation, f.name, f.enabled)  -- psp.status tells of these
UNION ALL
SELECT 'rule', format('%s: %I', c.label, w.rulename), concat_ws(' ', w.ev_enabled, pg_get_ruledef(w.oid))
  FROM captured c JOIN pg_rewrite w ON w.ev_class = c.oid WHERE c.relkind <> 'v'
UNION ALL
SELECT 'sequence', format('%I.%I', q.schema_name, q.sequence_name),
       concat_ws(' ', q.base, q.stride, s.definition)
  FROM psp.sequences q LEFT JOIN psp.sequence_definitions(ARRAY(SELECT relation FROM psp.sequences)) s ON s.sequence = q.relation
UNION ALL
SELECT CASE t.typtype WHEN 'd' THEN 'domain' ELSE 'type' END, t.oid::regtype::text,
       CASE t.typtype
           WHEN 'e' THEN (SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder)
                            FROM pg_enum e WHERE e.enumtypid = t.oid)
           WHEN 'c' THEN (SELECT string_agg(concat_ws(' ', quote_ident(a.attname), format_type(a.atttypid, a.atttypmod)), ', '
                                            ORDER BY a.attnum)
                            FROM pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped)
           WHEN 'r' THEN (SELECT format_type(r.rngsubtype, NULL) FROM pg_range r WHERE r.rngtypid = t.oid)
           ELSE concat_ws(' ', format_type(t.typbasetype, t.typtypmod), t.typnotnull, t.typdefault,
                          (SELECT string_agg(concat_ws(' ', quote_ident(k.conname), pg_get_constraintdef(k.oid)), ', ' ORDER BY k.conname)
                             FROM pg_constraint k WHERE k.contypid = t.oid AND k.contype <> 'n')) END
  FROM used_types t
UNION ALL
SELECT 'function', f.oid::regprocedure::text, pg_get_functiondef(f.oid)
  FROM pg_proc f
 WHERE f.oid >= 16384 AND f.prokind IN ('f', 'p') AND f.pronamespace <> 'psp'::regnamespace
   AND NOT EXISTS (SELECT FROM pg_depend e WHERE (e.classid, e.objid, e.deptype) = ('pg_proc'::regclass, f.oid, 'e'))
   AND psp.relied_on_by('pg_proc'::regclass, f.oid) IS NOT NULL
