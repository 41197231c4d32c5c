-- What must stay as it was at adoption, and how to see whether it has. Everything is told by names and definitions, not by
-- OIDs: REINDEX CONCURRENTLY and pg_upgrade give new ones. ddl_guard.sql compares after each schema change.
-- Each mode says what is captured: view psp.captured_relations (captured_relations.sql).

-- kind 'relation', 'column', …: an object of a captured relation. 'sequence': a strided one. 'left out': a permanent table
-- or sequence that an extension had at adoption and that stays local.
CREATE TABLE psp.guarded_objects (
    schema_name   name NOT NULL,
    relation_name name NOT NULL,
    kind          text NOT NULL,
    name          name NOT NULL,
    definition    text NOT NULL,
    PRIMARY KEY (schema_name, relation_name, kind, name)
);

-- Which major version of PostgreSQL wrote the definitions: another one may write them otherwise.
CREATE TABLE psp.guarded_by (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version  integer NOT NULL
);

-- The part of a relation's definition that is cheap to read for all relations at once. (No SET clause, so that
-- PostgreSQL can inline it.)
CREATE FUNCTION psp.relation_definition(c pg_catalog.pg_class) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT pg_catalog.concat_ws(' ', c.relkind, c.relpersistence, c.reloftype, c.relforcerowsecurity,
                                CASE WHEN c.relkind OPERATOR(pg_catalog.=) 'v' THEN c.reloptions END)
$$;

-- The state of captured relations, as it is now. Settings that definitions depend on are fixed. Invalid unique indexes are
-- left out: REINDEX CONCURRENTLY makes them for a moment.
CREATE FUNCTION psp.guarded_state(relations oid[])
RETURNS TABLE (schema_name name, relation_name name, kind text, name name, definition text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET quote_all_identifiers = off
SET timezone = 'UTC' SET datestyle = 'ISO, MDY' SET intervalstyle = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' AS $$
    WITH r AS (
        SELECT n.nspname, c.* FROM unnest(relations) u(relation)
          JOIN pg_class c ON c.oid = u.relation JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE c.relkind IN ('r', 'p', 'v')
    )
    SELECT r.nspname, r.relname, 'relation', r.relname, psp.relation_definition(c)
      FROM r JOIN pg_class c ON c.oid = r.oid
    UNION ALL  -- (REASSIGN OWNED fires no event trigger: this one may change)
    SELECT r.nspname, r.relname, 'owner', pg_get_userbyid(r.relowner), '' FROM r
    UNION ALL
    SELECT r.nspname, r.relname, 'partition key', r.relname, pg_get_partkeydef(r.oid) FROM r WHERE r.relkind = 'p'
    UNION ALL
    SELECT r.nspname, r.relname, 'parent', p.relname,
           concat_ws(' ', p.relnamespace::regnamespace, i.inhdetachpending, pg_get_expr(r.relpartbound, r.oid))
      FROM r JOIN pg_inherits i ON i.inhrelid = r.oid JOIN pg_class p ON p.oid = i.inhparent
    UNION ALL
    SELECT r.nspname, r.relname, 'children', r.relname, string_agg(i.inhrelid::regclass::text, ', ' ORDER BY i.inhrelid::regclass::text)
      FROM r JOIN pg_inherits i ON i.inhparent = r.oid GROUP BY r.nspname, r.relname
    UNION ALL
    SELECT r.nspname, r.relname, 'column', a.attname,
           concat_ws(' ', a.attnum, format_type(a.atttypid, a.atttypmod), nullif(a.attcollation, 0)::regcollation,
                     a.attnotnull, a.attidentity, a.attgenerated, pg_get_expr(d.adbin, d.adrelid))
      FROM r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
      LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
    UNION ALL
    SELECT r.nspname, r.relname, 'constraint', k.conname, pg_get_constraintdef(k.oid)
      FROM r JOIN pg_constraint k ON k.conrelid = r.oid
    UNION ALL
    SELECT r.nspname, r.relname, 'unique index', x.relname, concat_ws(' ', pg_get_indexdef(x.oid), i.indimmediate)
      FROM r JOIN pg_index i ON i.indrelid = r.oid AND (i.indisunique OR i.indisexclusion) AND i.indisvalid
      JOIN pg_class x ON x.oid = i.indexrelid
    UNION ALL
    SELECT r.nspname, r.relname, 'trigger', t.tgname, concat_ws(' ', t.tgenabled, md5(pg_get_triggerdef(t.oid)))
      FROM r JOIN pg_trigger t ON t.tgrelid = r.oid AND NOT t.tgisinternal
    UNION ALL  -- those of foreign keys have numbers for names
    SELECT r.nspname, r.relname, 'constraint triggers', r.relname,
           string_agg(concat_ws(' ', k.conname, t.tgtype, t.tgenabled), ', ' ORDER BY k.conname, t.tgtype, t.tgenabled)
      FROM r JOIN pg_trigger t ON t.tgrelid = r.oid AND t.tgisinternal LEFT JOIN pg_constraint k ON k.oid = t.tgconstraint
     GROUP BY r.nspname, r.relname
    UNION ALL
    SELECT r.nspname, r.relname, 'rule', w.rulename, concat_ws(' ', w.ev_enabled, md5(pg_get_ruledef(w.oid)))
      FROM r JOIN pg_rewrite w ON w.ev_class = r.oid
$$;

-- The same of sequences. What they have drawn is no part of it.
CREATE FUNCTION psp.sequence_state(sequences oid[])
RETURNS TABLE (schema_name name, relation_name name, kind text, name name, definition text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET quote_all_identifiers = off AS $$
    SELECT n.nspname, c.relname, 'sequence', c.relname,
           concat_ws(' ', c.relpersistence, s.seqtypid::regtype, s.seqincrement, s.seqmin, s.seqmax, s.seqcycle,
                     (SELECT format('%s.%I', d.refobjid::regclass, a.attname)
                        FROM pg_depend d JOIN pg_attribute a ON (a.attrelid, a.attnum) = (d.refobjid, d.refobjsubid)
                       WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                         AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')))
      FROM unnest(sequences) u(sequence) JOIN pg_class c ON c.oid = u.sequence
      JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_sequence s ON s.seqrelid = c.oid
$$;

-- Permanent tables and sequences that are neither captured nor psp's nor PostgreSQL's.
CREATE VIEW psp.unknown_relations AS
SELECT c.oid AS relation, n.nspname AS schema_name, c.relname AS relation_name, c.relkind AS kind
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p', 'S') AND c.relpersistence = 'p'
   AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'psp')
   AND NOT EXISTS (
       SELECT FROM psp.guarded_objects g
        WHERE (g.schema_name, g.relation_name) = (n.nspname, c.relname)
          AND (g.kind IN ('relation', 'sequence')
               OR g.kind = 'left out' AND EXISTS (
                      SELECT FROM pg_depend e WHERE e.classid = 'pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e')));

-- Writes down the state as it is now; at adoption, and after an upgrade of PostgreSQL.
CREATE FUNCTION psp.note_guarded_objects() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM psp.guarded_objects WHERE kind <> 'left out';
    INSERT INTO psp.guarded_objects
    SELECT s.* FROM psp.guarded_state(ARRAY(SELECT relation FROM psp.captured_relations)) s;
    INSERT INTO psp.guarded_objects
    SELECT s.* FROM psp.sequence_state(ARRAY(
        SELECT to_regclass(format('%I.%I', q.schema_name, q.sequence_name))::oid FROM psp.sequences q)) s;
    INSERT INTO psp.guarded_by (version) VALUES (current_setting('server_version_num')::integer / 10000)
    ON CONFLICT (only_row) DO UPDATE SET version = EXCLUDED.version;
$$;

-- What is not as it was, of these relations and sequences.
CREATE FUNCTION psp.changed_objects(relations oid[])
RETURNS TABLE (schema_name name, relation_name name, kind text, name name)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    WITH now AS (
        SELECT * FROM psp.guarded_state(relations)
        UNION ALL
        SELECT s.* FROM psp.sequence_state(relations) s JOIN psp.guarded_objects g USING (schema_name, relation_name, kind)
    ), noted AS (
        SELECT g.* FROM psp.guarded_objects g
          JOIN (SELECT DISTINCT n.schema_name, n.relation_name FROM now n) r USING (schema_name, relation_name)
         WHERE g.kind <> 'left out'
    )
    SELECT schema_name, relation_name, kind, name FROM now FULL JOIN noted USING (schema_name, relation_name, kind, name)
     WHERE now.definition IS DISTINCT FROM noted.definition
$$;

-- Captured relations that are gone, or whose own definition has changed: a quick look at all of them.
CREATE VIEW psp.changed_relations AS
SELECT g.schema_name, g.relation_name, c.oid IS NULL AS is_gone
  FROM psp.guarded_objects g
  LEFT JOIN (pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace)
    ON (n.nspname, c.relname) = (g.schema_name, g.relation_name)
 WHERE g.kind = 'relation' AND psp.relation_definition(c) IS DISTINCT FROM g.definition
    OR g.kind = 'sequence' AND c.relkind IS DISTINCT FROM 'S';
