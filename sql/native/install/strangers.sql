-- Relations that are at this semi-primary only: EXPLAIN ANALYZE CREATE TABLE AS and its like make them without any event trigger. They are
-- no part of the schema changes that come after them, and no schema change may name them: at the other servers it would stop the stream.

-- Before a statement of a schema change. A table of this transaction that waits for its key is none.
CREATE FUNCTION psp.note_strangers() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO psp.strangers (xid, relation, name, kind)
    WITH unknown AS MATERIALIZED (SELECT * FROM psp.unknown_relations)
    SELECT pg_current_xact_id(), u.relation, u.relation_name, 'table' FROM unknown u
     WHERE u.kind IN ('r', 'p') AND NOT psp.waits_for_key(u.relation)
       AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_class'::regclass AND e.objid = u.relation AND e.deptype = 'e')
    UNION ALL
    SELECT pg_current_xact_id(), e.relation, e.name, e.kind FROM psp.explained_relations e
        ON CONFLICT DO NOTHING;
END $$;

-- After it.
CREATE FUNCTION psp.forget_strangers() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM psp.strangers WHERE xid = pg_current_xact_id();
    DELETE FROM psp.reassigned WHERE xid = pg_current_xact_id()
$$;

-- By names: one may have been dropped.
CREATE FUNCTION psp.refuse_strangers(statement text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    words CONSTANT text[] := psp.words_of(statement);
    named psp.strangers;
BEGIN
    SELECT s.* INTO named FROM psp.strangers s
     WHERE s.xid = pg_current_xact_id() AND psp.is_named(s.name, statement, words) ORDER BY s.name LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = format('psp: the statement names %s %I, which is at this semi-primary only', named.kind, named.name),
            DETAIL = 'No schema change has made it; EXPLAIN ANALYZE CREATE … AS makes such relations.',
            HINT = format('SET psp.schema_changes = local; DROP %s %I. Then make it by a statement of its own.', upper(named.kind), named.name);
    END IF;
END $$;

-- Where a schema change arrives: what it makes may have the name of a stranger, which gets another one.
CREATE FUNCTION psp.rename_strangers(statement text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    words CONSTANT text[] := psp.words_of(statement);
    named psp.strangers;
BEGIN
    FOR named IN
        SELECT s.* FROM psp.strangers s WHERE s.xid = pg_current_xact_id() AND psp.is_named(s.name, statement, words)
    LOOP
        RAISE WARNING USING MESSAGE = format('psp: %s %s makes way for a schema change', named.kind, named.relation::regclass);
        PERFORM psp.run_own_command(format('ALTER %s %s RENAME TO %I', named.kind, named.relation::regclass,
                                           format('local_%s_%s', named.relation, named.name)));
    END LOOP;
END $$;
