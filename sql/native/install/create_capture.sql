-- The capture of one table, all that there is of it: made at adoption, when a semi-primary joins, and again when the table's
-- definition has changed. A superuser calls these functions, or a function of a superuser's.

-- The functions that each table has; `function` is null if it is not there. (OFFSET 0: looked up by name. PostgreSQL would read all
-- functions.)
CREATE VIEW psp.table_functions AS
SELECT t.table_id, f.name::name AS name, p.function
  FROM psp.tables t
 CROSS JOIN LATERAL (
    SELECT format(p.pattern, t.table_id)
      FROM unnest('{capture_%s_row,capture_%s_insert,capture_%s_update,capture_%s_delete,capture_%s_rekey,capture_%s_share,capture_%s_ended,look_%s,apply_insert_%s,apply_upsert_%s,
                    apply_make_way_%s,apply_delete_%s,apply_clear_%s,apply_furthest_%s}'::text[]) p(pattern)
    UNION ALL
    SELECT 'guard_' || (g.value ->> 'guard_id') FROM jsonb_array_elements(t.guards) g) f(name)
  LEFT JOIN LATERAL (
    SELECT p.oid::regprocedure FROM pg_proc p
     WHERE p.proname = f.name::name AND p.pronamespace = 'psp'::regnamespace OFFSET 0) p(function) ON true;

-- PostgreSQL checks a deferrable unique or exclusion constraint by a trigger of its own, at the end of the statement or at COMMIT. The check
-- waits for other transactions that have taken a value in its way and are not committed yet. ALWAYS: the apply worker, which
-- is in the replica role, must wait for them, too. Otherwise a local transaction could pass its own check before the other
-- server's row arrives, and tell the primary afterwards that it has seen that row. Release takes it back.
CREATE FUNCTION psp.enable_unique_checks(relations oid[], how text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unique_check record;
BEGIN
    FOR unique_check IN
        SELECT t.tgrelid::regclass AS relation, t.tgname AS name FROM pg_trigger t
         WHERE t.tgrelid = ANY (relations) AND t.tgfoid = 'pg_catalog.unique_key_recheck'::regproc
    LOOP
        EXECUTE format('ALTER TABLE ONLY %s ENABLE %s TRIGGER %I', unique_check.relation, how, unique_check.name);
    END LOOP;
END $$;

-- What psp's roles need for these tables: the owners' functions that they call, and the schemas in which the types, collations and hash
-- functions of keys are.
CREATE FUNCTION psp.grant_capture(table_ids integer[], targets oid[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    given record;
BEGIN
    FOR given IN
        SELECT string_agg(f.function::text, ', ') AS functions, roles
          FROM psp.table_functions f
         CROSS JOIN LATERAL (SELECT CASE WHEN f.name ~ '^apply_' THEN 'psp_semi_primary' ELSE 'psp_semi_primary, psp_functions' END) r(roles)
         WHERE f.table_id = ANY (table_ids) AND f.name !~ '^capture_' AND f.function IS NOT NULL
         GROUP BY roles
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', given.functions, given.roles);
    END LOOP;
    FOR given IN
        SELECT DISTINCT n.oid::regnamespace AS schema
          FROM (SELECT DISTINCT f.operator_class, i.indcollation[f.place - 1]
                  FROM pg_index i JOIN psp.index_column_facts f ON f.index = i.indexrelid
                 WHERE i.indrelid = ANY (targets)) k(opclass, collid)
         CROSS JOIN LATERAL (
            SELECT c.collnamespace FROM pg_collation c WHERE c.oid = k.collid
            UNION ALL
            SELECT t.typnamespace FROM pg_opclass o JOIN pg_type t ON t.oid = o.opcintype WHERE o.oid = k.opclass
            UNION ALL
            SELECT f.pronamespace FROM pg_opclass o
              JOIN pg_amop e ON e.amopfamily = o.opcfamily AND e.amopstrategy = 3
              JOIN pg_amop h ON h.amopopr = e.amopopr
              JOIN pg_amproc p ON p.amprocfamily = h.amopfamily
              JOIN pg_proc f ON f.oid = p.amproc
             WHERE o.oid = k.opclass) s(schema)
          JOIN pg_namespace n ON n.oid = s.schema
         WHERE n.nspname <> 'pg_catalog'
           AND NOT EXISTS (SELECT FROM aclexplode(n.nspacl) a WHERE a.grantee = 'psp_functions'::regrole AND a.privilege_type = 'USAGE')
    LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA %s TO psp_functions', given.schema);
    END LOOP;
END $$;

-- What captures the rows of tables and applies others', in place of what there is.
CREATE FUNCTION psp.renew_functions(facts jsonb[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    complete  jsonb;
    table_ids integer[];
    targets   oid[];
    paths     text[];
BEGIN
    FOR complete IN SELECT psp.with_references(facts) LOOP
        PERFORM psp.create_guards(complete, complete ->> 'relation'),
                psp.create_capture_triggers(complete),
                psp.create_reference_triggers(complete);
    END LOOP;
    SELECT array_agg((f ->> 'table_id')::integer), array_agg((f ->> 'relation')::regclass::oid), array_agg(f ->> 'search_path')
      INTO table_ids, targets, paths FROM unnest(facts) f;
    PERFORM psp.create_apply_functions(table_ids, paths), psp.grant_capture(table_ids, targets);
END $$;

-- Makes the capture of tables that have none, from what psp.define_tables has returned: at adoption, before there is a guard.
CREATE FUNCTION psp.install_capture(facts jsonb[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
BEGIN
    PERFORM psp.create_look(f) FROM unnest(facts) f;
    PERFORM psp.renew_functions(facts),
            psp.enable_unique_checks(ARRAY(SELECT r.value::regclass FROM unnest(facts) f CROSS JOIN jsonb_array_elements_text(f -> 'relations') r),
                                     'ALWAYS');
END $$;

-- Takes it away. The table may have another definition or name by now, or be gone.
CREATE FUNCTION psp.remove_capture(table_id integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    functions CONSTANT text := (
        SELECT string_agg(f.function::text, ', ') FROM psp.table_functions f WHERE f.table_id = remove_capture.table_id);
    relations CONSTANT oid[] := ARRAY(SELECT r.relation FROM psp.captured_relations r WHERE r.table_id = remove_capture.table_id);
    relation  regclass;
BEGIN
    FOREACH relation IN ARRAY relations LOOP  -- a partition that has come since then does not have them
        EXECUTE format('DROP TRIGGER IF EXISTS psp_truncate ON %s', relation);
        EXECUTE format('DROP TRIGGER IF EXISTS psp_truncated ON %s', relation);
        EXECUTE format('DROP TRIGGER IF EXISTS psp_refuse_replica ON %s', relation);
    END LOOP;
    PERFORM psp.enable_unique_checks(relations, '');
    IF functions IS NOT NULL THEN
        EXECUTE format('DROP FUNCTION %s CASCADE', functions);  -- and the triggers
    END IF;
    EXECUTE format('DROP TYPE IF EXISTS psp.apply_rows_%1$s, psp.apply_keys_%1$s, psp.apply_values_%1$s', table_id);
END $$;

-- The guards of a table in psp.tables as {index: number}.
CREATE FUNCTION psp.guard_ids_of(guards jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_object_agg(g.value ->> 'index', g.value -> 'guard_id'), '{}') FROM jsonb_array_elements(guards) g
$$;

-- ---- of an adopted database ---------------------------------------------------------------------------------------------

-- What the guard compares with (guarded_state.sql, psp.own_functions) no longer has the table.
CREATE FUNCTION psp.forget_table(table_id integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM psp.own_functions o USING psp.table_functions f
     WHERE f.table_id = forget_table.table_id AND o.name = f.name;
    DELETE FROM psp.guarded_objects o USING psp.guarded_relations r
     WHERE r.table_id = forget_table.table_id AND (o.schema_name, o.relation_name) = (r.schema_name, r.relation_name);
    DELETE FROM psp.guarded_relations r WHERE r.table_id = forget_table.table_id;
END $$;

-- It has the table as it is now.
CREATE FUNCTION psp.note_table(table_id integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM psp.forget_table(note_table.table_id);
    PERFORM psp.note_relations(note_table.table_id);
    INSERT INTO psp.own_functions (name, for_daemon)
    SELECT f.name, f.name !~ '^capture_' FROM psp.table_functions f
     WHERE f.table_id = note_table.table_id AND f.function IS NOT NULL;
END $$;

-- Captures a table under its number, as it is defined now; guard_ids: {index: number}. What it had under this number is
-- replaced. All in the caller's transaction: what this writes before and after is captured in the form of that moment.
-- Numbers are the cluster's, so the caller has them from the primary.
CREATE FUNCTION psp.create_capture(target regclass, table_id integer, guard_ids jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
BEGIN
    PERFORM psp.begin_own_commands();
    PERFORM psp.forget_table(table_id);
    PERFORM psp.remove_capture(table_id);
    PERFORM psp.install_capture(ARRAY[psp.define_table(target, table_id, guard_ids)]);
    PERFORM psp.note_table(table_id);
    PERFORM psp.end_own_commands();
END $$;

-- Captures a table whose columns and key are what they were, but not its unique indexes or its own triggers. Nothing is dropped, which
-- would lock readers out: PostgreSQL lets them read while it makes an index or a trigger, and one that is going to write, too, would wait
-- for the change, and the change for it.
CREATE FUNCTION psp.renew_capture(target regclass, table_id integer, guard_ids jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
BEGIN
    PERFORM psp.begin_own_commands();
    PERFORM psp.renew_functions(ARRAY[psp.define_table(target, table_id, guard_ids)]);
    PERFORM psp.note_table(table_id);
    PERFORM psp.end_own_commands();
END $$;

-- Ends the capture of a table. It may be gone already.
CREATE FUNCTION psp.drop_capture(table_id integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
#variable_conflict use_column
BEGIN
    PERFORM psp.begin_own_commands();
    PERFORM psp.forget_table(table_id);
    PERFORM psp.remove_capture(table_id);
    DELETE FROM psp.tables t WHERE t.table_id = drop_capture.table_id;
    PERFORM psp.end_own_commands();
END $$;

-- Changes what captures rows and commits ('sql' or 'module'), of all tables; writers wait. Rows of psp.schema_history are SQL's in any case.
CREATE FUNCTION psp.use_capture(wanted text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
DECLARE
    found record;
BEGIN
    BEGIN
        IF EXISTS (SELECT FROM psp.captured w WHERE w.xid = pg_current_xact_id()) THEN
            RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction', MESSAGE = 'psp: the transaction has written rows',
                HINT = 'Use a transaction of its own.';
        END IF;
    EXCEPTION WHEN undefined_file THEN  -- the module's: it captures nothing
    END;
    FOR found IN SELECT format('%I.%I', t.schema_name, t.table_name) AS relation FROM psp.tables t ORDER BY t.table_id LOOP
        EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', found.relation);
    END LOOP;
    UPDATE psp.identity SET capture = wanted;
    PERFORM psp.begin_own_commands();
    PERFORM psp.install_commit(), psp.install_note_statement();
    PERFORM psp.end_own_commands();
    DELETE FROM psp.own_functions WHERE name = ANY (psp.module_functions());
    INSERT INTO psp.own_functions (name, for_daemon) SELECT f.name, false FROM unnest(psp.module_functions()) f(name) WHERE wanted = 'module';
    FOR found IN
        SELECT t.table_id, to_regclass(format('%I.%I', t.schema_name, t.table_name)) AS target,
               psp.guard_ids_of(t.guards) AS guard_ids
          FROM psp.tables t WHERE t.table_id <> @SCHEMA_HISTORY_ID@ ORDER BY t.table_id
    LOOP
        PERFORM psp.renew_capture(found.target, found.table_id, found.guard_ids);
    END LOOP;
END $$;
