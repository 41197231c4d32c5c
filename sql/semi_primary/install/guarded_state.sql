-- What must stay as it was at adoption, and how to see whether it has. Everything is told by names and
-- definitions, not by OIDs: REINDEX CONCURRENTLY and pg_upgrade give new ones. ddl_guard.sql compares after each
-- schema change. Each mode says what is captured: view psp.captured_relations (captured_relations.sql).

-- kind 'relation': a captured one. 'sequence': a strided one.
CREATE TABLE psp.guarded_relations (
    schema_name   name NOT NULL,
    relation_name name NOT NULL,
    kind          text NOT NULL,
    definition    text NOT NULL,
    table_id      integer,  -- of a captured one: the table that it is, or is a part of
    parts         bigint,   -- of a captured one: psp.numbers_of_parts
    PRIMARY KEY (schema_name, relation_name)
);

-- What captured relations consist of.
CREATE TABLE psp.guarded_objects (
    schema_name   name NOT NULL,
    relation_name name NOT NULL,
    kind          text NOT NULL,
    name          name NOT NULL,
    definition    text NOT NULL,
    PRIMARY KEY (schema_name, relation_name, kind, name)
);
CREATE INDEX ON psp.guarded_objects (name) WHERE kind = 'unique index';

-- Which major version of PostgreSQL wrote the definitions: another one may write them otherwise.
CREATE TABLE psp.guarded_by (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version  integer NOT NULL
);

CREATE FUNCTION psp.major_version() RETURNS integer
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT current_setting('server_version_num')::integer / 10000
$$;

-- The part of a relation's definition that is cheap to read for all relations at once. (No SET clause, so that
-- PostgreSQL can inline it.)
CREATE FUNCTION psp.relation_definition(c pg_catalog.pg_class) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT pg_catalog.concat_ws(' ', c.relkind, c.relpersistence, c.reloftype, c.relforcerowsecurity,
                                CASE WHEN c.relreplident OPERATOR(pg_catalog.=) 'n' THEN c.relreplident END,
                                CASE WHEN c.relkind OPERATOR(pg_catalog.=) 'v' THEN c.reloptions END)
$$;

-- What the text of a type's values depends on, as far as a schema change may change that: an enum's labels by their OIDs (pg_upgrade
-- keeps these), a composite type's fields by their numbers, at any depth. Null: nothing. A form that contains the older one (<@) reads
-- the older texts.
CREATE FUNCTION psp.text_form(type oid) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t pg_type;
BEGIN
    IF type < 16384 THEN
        RETURN NULL;
    END IF;
    SELECT * INTO STRICT t FROM pg_type p WHERE p.oid = type;
    RETURN CASE
        WHEN t.typtype = 'd' THEN psp.text_form(t.typbasetype)
        WHEN t.typtype = 'e' THEN (SELECT coalesce(jsonb_object_agg(e.oid, e.enumlabel), '{}') FROM pg_enum e WHERE e.enumtypid = type)
        WHEN t.typtype = 'c' THEN (
            SELECT jsonb_build_object('fields', string_agg(a.attnum::text, ' ' ORDER BY a.attnum),
                                      'forms', coalesce(jsonb_object_agg(a.attnum, f.form) FILTER (WHERE f.form IS NOT NULL), '{}'))
              FROM pg_attribute a CROSS JOIN LATERAL psp.text_form(a.atttypid) f(form)
             WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped)
        WHEN t.typtype IN ('r', 'm') THEN (
            SELECT psp.text_form(r.rngsubtype) FROM pg_range r WHERE type IN (r.rngtypid, r.rngmultitypid))
        WHEN t.typelem <> 0 THEN psp.text_form(t.typelem) END;
END $$;

-- What these captured relations consist of now. Settings that definitions depend on are fixed. Invalid unique
-- indexes are left out: REINDEX CONCURRENTLY makes them for a moment.
CREATE FUNCTION psp.guarded_state(relations oid[])
RETURNS TABLE (schema_name name, relation_name name, kind text, name name, definition text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET quote_all_identifiers = off
SET timezone = 'UTC' SET datestyle = 'ISO, MDY' SET intervalstyle = 'postgres' SET extra_float_digits = 1
SET bytea_output = 'hex' SET lc_monetary = 'C' SET standard_conforming_strings = on AS $$
    WITH r AS MATERIALIZED (
        SELECT n.nspname, c.oid, c.relname, c.relkind, c.relowner, c.relpartbound
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE c.oid = ANY (relations) AND c.relkind IN ('r', 'p', 'v')
    ), forms AS MATERIALIZED (
        SELECT t.type, psp.text_form(t.type) AS form
          FROM (SELECT DISTINCT a.atttypid FROM pg_attribute a
                 WHERE a.attrelid = ANY (relations) AND a.attnum > 0 AND a.atttypid >= 16384) t(type)
    )
    -- (REASSIGN OWNED fires no event trigger: this one may change)
    SELECT r.nspname, r.relname, 'owner', r.relname, r.relowner::text FROM r
    UNION ALL
    SELECT r.nspname, r.relname, 'partition key', r.relname, pg_get_partkeydef(r.oid)
      FROM r WHERE r.relkind = 'p'
    UNION ALL
    SELECT r.nspname, r.relname, 'parent', p.relname,
           concat_ws(' ', p.relnamespace::regnamespace, i.inhdetachpending, pg_get_expr(r.relpartbound, r.oid))
      FROM pg_inherits i JOIN r ON r.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
    UNION ALL
    SELECT r.nspname, r.relname, 'children', r.relname,
           string_agg(i.inhrelid::regclass::text, ', ' ORDER BY i.inhrelid::regclass::text)
      FROM pg_inherits i JOIN r ON r.oid = i.inhparent
     GROUP BY r.nspname, r.relname
    UNION ALL
    SELECT r.nspname, r.relname, 'column', a.attname,
           concat_ws(' ', a.attnum, format_type(a.atttypid, a.atttypmod),
                     CASE WHEN a.attcollation NOT IN (0, 100) THEN a.attcollation::regcollation END,
                     a.attnotnull, a.attidentity, a.attgenerated, pg_get_expr(d.adbin, d.adrelid),
                     CASE WHEN a.attstorage = 'p' AND a.attlen = -1 THEN 'PLAIN' END)
      FROM pg_attribute a JOIN r ON r.oid = a.attrelid
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef
     WHERE a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT r.nspname, r.relname, 'form', a.attname, f.form::text
      FROM forms f JOIN pg_attribute a ON a.atttypid = f.type JOIN r ON r.oid = a.attrelid
     WHERE a.attnum > 0 AND NOT a.attisdropped AND f.form IS NOT NULL
    UNION ALL
    SELECT r.nspname, r.relname, 'constraint', k.conname, pg_get_constraintdef(k.oid)
      FROM pg_constraint k JOIN r ON r.oid = k.conrelid
    UNION ALL
    SELECT r.nspname, r.relname, 'unique index', x.relname, concat_ws(' ', pg_get_indexdef(x.oid), i.indimmediate)
      FROM pg_index i JOIN r ON r.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid
     WHERE (i.indisunique OR i.indisexclusion) AND i.indisvalid
    UNION ALL
    SELECT r.nspname, r.relname, 'trigger', t.tgname, concat_ws(' ', t.tgenabled, md5(pg_get_triggerdef(t.oid)))
      FROM pg_trigger t JOIN r ON r.oid = t.tgrelid WHERE NOT t.tgisinternal
    UNION ALL  -- those of foreign keys have numbers for names
    SELECT r.nspname, r.relname, 'constraint triggers', r.relname,
           string_agg(concat_ws(' ', k.conname, t.tgtype, t.tgenabled), ', '
                      ORDER BY k.conname, t.tgtype, t.tgenabled)
      FROM pg_trigger t JOIN r ON r.oid = t.tgrelid LEFT JOIN pg_constraint k ON k.oid = t.tgconstraint
     WHERE t.tgisinternal
     GROUP BY r.nspname, r.relname
    UNION ALL
    SELECT r.nspname, r.relname, 'rule', w.rulename, concat_ws(' ', w.ev_enabled, md5(pg_get_ruledef(w.oid)))
      FROM pg_rewrite w JOIN r ON r.oid = w.ev_class
$$;

-- How many constraints, triggers, unique indexes, rules, partitions and wholes relations have. None: no row.
CREATE VIEW psp.numbers_of_parts AS
SELECT p.relation, count(*) AS parts
  FROM (SELECT k.conrelid FROM pg_constraint k
        UNION ALL SELECT t.tgrelid FROM pg_trigger t
        UNION ALL SELECT i.indrelid FROM pg_index i WHERE (i.indisunique OR i.indisexclusion) AND i.indisvalid
        UNION ALL SELECT r.ev_class FROM pg_rewrite r
        UNION ALL SELECT i.inhrelid FROM pg_inherits i
        UNION ALL SELECT i.inhparent FROM pg_inherits i) p(relation)
 GROUP BY p.relation;

-- What sequences are. What they have drawn is no part of it.
CREATE FUNCTION psp.sequence_definitions(sequences oid[]) RETURNS TABLE (sequence oid, definition text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET quote_all_identifiers = off AS $$
    SELECT c.oid, concat_ws(' ', c.relpersistence, s.seqtypid::regtype, s.seqincrement, s.seqmin, s.seqmax, s.seqcycle, u.column_name)
      FROM unnest(sequences) q(sequence) JOIN pg_class c ON c.oid = q.sequence JOIN pg_sequence s ON s.seqrelid = c.oid
      LEFT JOIN LATERAL (
        SELECT format('%s.%I', d.refobjid::regclass, a.attname)
          FROM pg_depend d JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
         WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
           AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')) u(column_name) ON true
$$;

-- Permanent tables and sequences that are neither captured nor psp's nor PostgreSQL's.
CREATE VIEW psp.unknown_relations AS
SELECT c.oid AS relation, n.nspname AS schema_name, c.relname AS relation_name, c.relkind AS kind
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p', 'S') AND c.relpersistence = 'p'
   AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'psp')
   AND NOT EXISTS (SELECT FROM psp.guarded_relations g WHERE g.schema_name = n.nspname AND g.relation_name = c.relname)
   -- What an extension brings is at each server by itself.
   AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e');

-- Materialized views and unlogged tables that EXPLAIN ANALYZE has made: no event trigger has told of them.
CREATE VIEW psp.explained_relations AS
SELECT c.oid AS relation, c.relname AS name, CASE c.relkind WHEN 'm' THEN 'materialized view' ELSE 'table' END AS kind
  FROM pg_class c
 WHERE (c.relkind = 'm' OR c.relkind = 'r' AND c.relpersistence = 'u') AND c.oid >= 16384
   AND c.relnamespace <> 'psp'::regnamespace AND NOT EXISTS (SELECT FROM psp.known_relations k WHERE k.relation = c.oid);

-- Of this one an event trigger has told, if it is one of them.
CREATE FUNCTION psp.note_known_relation(relation oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO psp.known_relations SELECT e.relation FROM psp.explained_relations e WHERE e.relation = note_known_relation.relation;
END $$;

-- Captured relations and sequences that are gone, or not what they were: a quick look at all of them.
CREATE VIEW psp.changed_relations AS
SELECT g.schema_name, g.relation_name
  FROM psp.guarded_relations g
  LEFT JOIN (pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid)
    ON n.nspname = g.schema_name AND c.relname = g.relation_name
 WHERE g.kind = 'relation' AND psp.relation_definition(c) <> g.definition
    OR g.kind = 'sequence' AND c.relkind IS DISTINCT FROM 'S';

-- Tables of another kind that inherit from captured ones.
CREATE VIEW psp.stray_children AS
WITH captured AS MATERIALIZED (
    SELECT c.oid FROM psp.guarded_relations g
      JOIN pg_namespace n ON n.nspname = g.schema_name
      JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = g.relation_name
     WHERE g.kind = 'relation')
SELECT i.inhrelid AS child, i.inhparent AS parent
  FROM pg_inherits i JOIN captured p ON p.oid = i.inhparent JOIN pg_class c ON c.oid = i.inhrelid
 WHERE c.relkind IN ('r', 'p', 'f') AND NOT EXISTS (SELECT FROM captured o WHERE o.oid = i.inhrelid);

-- Captured tables whose owner may not write them any more: rows of other servers come in as the owner.
CREATE VIEW psp.powerless_owners AS
WITH captured AS MATERIALIZED (
    SELECT c.oid, c.relowner, c.relacl, n.oid AS namespace FROM psp.guarded_relations g
      JOIN pg_namespace n ON n.nspname = g.schema_name
      JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = g.relation_name
     WHERE g.kind = 'relation' AND c.relkind IN ('r', 'p'))
SELECT c.oid AS relation, c.relowner AS owner FROM captured c
 WHERE c.relacl IS NOT NULL
   AND NOT (has_table_privilege(c.relowner, c.oid, 'SELECT') AND has_table_privilege(c.relowner, c.oid, 'INSERT')
            AND has_table_privilege(c.relowner, c.oid, 'UPDATE') AND has_table_privilege(c.relowner, c.oid, 'DELETE'))
UNION
SELECT min(c.oid::bigint)::oid, c.relowner FROM captured c GROUP BY c.relowner, c.namespace
HAVING NOT has_schema_privilege(c.relowner, c.namespace, 'USAGE');

-- What is not as it was, of these relations and sequences.
CREATE FUNCTION psp.changed_objects(relations oid[])
RETURNS TABLE (schema_name name, relation_name name, kind text, name name)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    WITH named AS MATERIALIZED (
        SELECT n.nspname AS schema_name, c.relname AS relation_name, c.oid, c.relkind, g.kind, g.definition
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
          LEFT JOIN psp.guarded_relations g ON g.schema_name = n.nspname AND g.relation_name = c.relname
         WHERE c.oid = ANY (relations)
    )
    SELECT schema_name, relation_name, kind, name
      FROM psp.guarded_state(relations) s
      FULL JOIN (SELECT o.* FROM named JOIN psp.guarded_objects o USING (schema_name, relation_name)) o
     USING (schema_name, relation_name, kind, name)
     WHERE s.definition IS DISTINCT FROM o.definition
    UNION ALL
    SELECT n.schema_name, n.relation_name, 'sequence', n.relation_name
      FROM named n LEFT JOIN psp.sequence_definitions(relations) s ON s.sequence = n.oid
     WHERE n.kind = 'sequence' AND s.definition IS DISTINCT FROM n.definition
    UNION ALL
    SELECT n.schema_name, n.relation_name, 'definition', n.relation_name FROM named n JOIN pg_class c USING (oid)
     WHERE c.relkind <> 'S' AND (n.kind = 'relation') IS TRUE
       AND psp.relation_definition(c) IS DISTINCT FROM n.definition
$$;

-- Writes down the captured relations of a table, or of all: null.
CREATE FUNCTION psp.note_relations(only_table integer) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    INSERT INTO psp.guarded_relations
    SELECT n.nspname, c.relname, 'relation', psp.relation_definition(c), r.table_id, p.parts
      FROM psp.captured_relations r
      JOIN pg_class c ON c.oid = r.relation JOIN pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN psp.numbers_of_parts p USING (relation)
     WHERE r.table_id = only_table OR only_table IS NULL;
    INSERT INTO psp.guarded_objects
    SELECT s.* FROM psp.guarded_state(ARRAY(
        SELECT r.relation FROM psp.captured_relations r WHERE r.table_id = only_table OR only_table IS NULL)) s;
$$;

-- Of all sequences, in place of what was noted of them. (Rows that stay the same are not written again: a migration calls this often.)
CREATE FUNCTION psp.note_sequences() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    DELETE FROM psp.guarded_relations g
     WHERE g.kind = 'sequence'
       AND NOT EXISTS (SELECT FROM psp.sequences q WHERE (q.schema_name, q.sequence_name) = (g.schema_name, g.relation_name));
    INSERT INTO psp.guarded_relations AS g (schema_name, relation_name, kind, definition)
    SELECT q.schema_name, q.sequence_name, 'sequence', s.definition
      FROM psp.sequences q LEFT JOIN psp.sequence_definitions(ARRAY(SELECT relation FROM psp.sequences)) s ON s.sequence = q.relation
        ON CONFLICT (schema_name, relation_name) DO UPDATE SET definition = EXCLUDED.definition
     WHERE g.definition IS DISTINCT FROM EXCLUDED.definition
$$;

-- Writes down the state as it is now; at adoption, and after an upgrade of PostgreSQL.
CREATE FUNCTION psp.note_guarded_objects() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    DELETE FROM psp.guarded_relations;
    DELETE FROM psp.guarded_objects;
    SELECT psp.note_relations(NULL);
    SELECT psp.note_sequences();
    INSERT INTO psp.guarded_by (version) VALUES (psp.major_version())
    ON CONFLICT (only_row) DO UPDATE SET version = EXCLUDED.version;
$$;
