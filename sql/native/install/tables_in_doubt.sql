-- Which captured tables may be others than noted, told by what is cheap to see in the catalog. changed_tables.sql compares these, and a statement
-- among hundreds of tables costs what its own tables cost. One too many costs time. One too few would be a silent difference.

-- What this transaction has written in the catalog. (xmin: of those who have begun since, too. What they have written is one too many.)
CREATE FUNCTION psp.written_objects() RETURNS TABLE (class oid, object oid)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    own CONSTANT integer := age(pg_current_xact_id()::xid);
BEGIN
    RETURN QUERY
    SELECT 'pg_class'::regclass::oid, w.object
      FROM (SELECT c.oid FROM pg_class c WHERE age(c.xmin) <= own  -- an index, too
            UNION ALL SELECT a.attrelid FROM pg_attribute a WHERE age(a.xmin) <= own  -- with it its default
            UNION ALL SELECT k.conrelid FROM pg_constraint k WHERE age(k.xmin) <= own
            UNION ALL SELECT t.tgrelid FROM pg_trigger t WHERE age(t.xmin) <= own
            UNION ALL SELECT r.ev_class FROM pg_rewrite r WHERE age(r.xmin) <= own) w(object)
    UNION
    SELECT 'pg_type'::regclass, t.oid FROM pg_type t WHERE age(t.xmin) <= own
    UNION
    SELECT 'pg_type'::regclass, e.enumtypid FROM pg_enum e WHERE age(e.xmin) <= own
    UNION ALL SELECT 'pg_namespace'::regclass, n.oid FROM pg_namespace n WHERE age(n.xmin) <= own
    UNION ALL SELECT 'pg_collation'::regclass, c.oid FROM pg_collation c WHERE age(c.xmin) <= own
    UNION ALL SELECT 'pg_proc'::regclass, p.oid FROM pg_proc p WHERE age(p.xmin) <= own
    UNION ALL SELECT 'pg_operator'::regclass, o.oid FROM pg_operator o WHERE age(o.xmin) <= own;
END $$;

-- Those, and what depends on them at any depth: a foreign key on the table that it refers to, a column on its type, a trigger on its function.
-- (Of other objects psp.touch_reliant tells.)
CREATE FUNCTION psp.objects_in_doubt() RETURNS TABLE (class oid, object oid)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    WITH RECURSIVE doubtful(class, object) AS (
        SELECT w.class, w.object FROM psp.written_objects() w
        UNION
        SELECT n.class, n.object FROM doubtful d
         CROSS JOIN LATERAL (
            SELECT p.classid, p.objid FROM pg_depend p WHERE p.refclassid = d.class AND p.refobjid = d.object
            UNION ALL  -- the columns of a composite type depend on others, and the type not on its columns
            SELECT 'pg_type'::regclass, c.reltype FROM pg_class c
             WHERE d.class = 'pg_class'::regclass AND c.oid = d.object AND c.relkind = 'c') n(class, object)
    )
    SELECT * FROM doubtful
$$;

-- What has gone leaves no row behind: a relation has other numbers of parts, or is not there by its name. REASSIGN OWNED may have been another
-- transaction's, which no event trigger has seen.
CREATE FUNCTION psp.tables_in_doubt() RETURNS integer[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN ARRAY(
        WITH captured AS MATERIALIZED (
            SELECT r.relation, r.table_id, n.nspname AS schema_name, c.relname AS relation_name, c.relowner
              FROM psp.captured_relations r JOIN pg_class c ON c.oid = r.relation JOIN pg_namespace n ON n.oid = c.relnamespace
        ), doubtful AS (
            SELECT coalesce(c.table_id, g.table_id) AS table_id
              FROM (SELECT * FROM psp.guarded_relations g WHERE g.kind = 'relation') g
              FULL JOIN captured c USING (table_id, schema_name, relation_name)
              LEFT JOIN psp.numbers_of_parts p USING (relation)
             WHERE p.parts IS DISTINCT FROM g.parts
            UNION
            SELECT c.table_id FROM psp.objects_in_doubt() d JOIN captured c ON c.relation = psp.relation_of(d.class, d.object)
            UNION
            SELECT c.table_id FROM psp.guarded_objects o JOIN captured c USING (schema_name, relation_name)
             WHERE o.kind = 'owner' AND o.definition <> c.relowner::text
            UNION
            SELECT c.table_id FROM psp.touched_relations t JOIN captured c USING (relation) WHERE t.xid = pg_current_xact_id()
        )
        SELECT table_id FROM doubtful WHERE table_id <> @SCHEMA_HISTORY_ID@);
END $$;
