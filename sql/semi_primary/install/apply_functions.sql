-- The functions by which the apply worker writes to the captured tables. Rows meet code of the table's owner on their way:
-- index expressions, CHECKs, generated columns, domains. So the functions belong to the owner (owners.sql).
-- docs/security.md tells what else the worker does against that code.

-- A comment in each statement by which the worker writes rows. It is longer than any name, so no name of a user's has it. (psp.is_of_rows)
CREATE FUNCTION psp.mark_of_rows() RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT '/* psp: a statement of the apply worker, which writes rows of other servers */'
$$;

-- SQL: whether lists of values are the same in bytes. Some types have no equality.
CREATE FUNCTION psp.same_bytes(list text, other_list text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'ROW(' || list || ')::pg_catalog.record OPERATOR(pg_catalog.*=) ROW(' || other_list || ')::pg_catalog.record'
$$;

-- SQL for a column's value in a row called psp_u, the n-th that came.
CREATE FUNCTION psp.given_value(col jsonb, n bigint) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN col ->> 'encoding' = 'text' THEN '(psp_u.psp_values).c' ELSE 'psp_u.c' END || n
$$;

-- The application's triggers that fire where rows of other servers are written, and those of partitions.
CREATE VIEW psp.loud_triggers AS
SELECT t.tgrelid AS relation, t.tgname AS name, t.tgenabled::text AS enabled, t.tgtype & 3 = 3 AS is_before_row, t.tgtype & 32 <> 0 AS is_on_truncate
  FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid
 WHERE t.tgenabled IN ('A', 'R') AND NOT t.tgisinternal AND f.pronamespace <> 'psp'::regnamespace;

-- Whether a table has one. (In views mode none is on the tables that have the rows.)
CREATE FUNCTION psp.has_loud_triggers(relation oid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- (OFFSET 0: looked up by the relation. PostgreSQL would read all triggers for each table.)
    RETURN EXISTS (SELECT FROM (SELECT has_loud_triggers.relation UNION ALL SELECT p.relid FROM pg_partition_tree(has_loud_triggers.relation) p) r(relation)
                    WHERE EXISTS (SELECT FROM psp.loud_triggers t WHERE t.relation = r.relation OFFSET 0))
           AND EXISTS (SELECT FROM psp.identity i WHERE i.mode = 'native');
END $$;

-- Whether the server module writes the table's rows (capture_module/apply.c), not statements. Of triggers and rules that fire where rows of others are
-- written it knows none: only PostgreSQL's own triggers of constraints.
CREATE FUNCTION psp.is_written_by_module(table_id integer, relation oid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT i.capture = 'module' FROM psp.identity i)
       AND table_id <> @SCHEMA_HISTORY_ID@
       AND EXISTS (SELECT FROM pg_class c WHERE c.oid = relation AND c.relkind = 'r')
       AND NOT psp.has_loud_triggers(relation)
       AND NOT EXISTS (SELECT FROM pg_rewrite r WHERE r.ev_class = relation AND r.ev_enabled IN ('A', 'R'));
END $$;

-- What is to be done to each captured table, and as which role. The rows come as one array of records, and so do the keys. (An array for
-- each column would be unnested into a store of its own each.) Names and operators are qualified, so the search_path does not matter.
-- Values that travel as text go through a type of psp's own (row_values): there PostgreSQL reads them by the input functions
-- of their types, where a cast from text might be one that a user has made.
-- Who refers to a row has locked it against the loss of its keys, which are what is in unique indexes (FOR KEY SHARE). PostgreSQL takes an
-- update for one of keys if it names such a column, also with the value that it has. So a row whose keys stay is updated without naming them, also in a
-- batch in which unique values change hands: only rows that give one up make way. Otherwise who refers to a row would be in the
-- worker's way whenever the row is updated elsewhere, and be ended for it.
-- Views mode: rows go into T_persistent with the global_t that wrote them (one more field, the last), a deleted one stays
-- as a tombstone, and nothing older replaces anything newer.
-- is_exact: of the primary key, and equal values are the same in bytes. Such a column stays as it is whenever the row is found by its key.
CREATE VIEW psp.apply_statements AS
WITH tables AS NOT MATERIALIZED (
    SELECT t.*, t.persistent IS NOT NULL AS versioned, c.oid AS relation, psp.mark_of_rows() AS mark,
           format('%I.%I', t.schema_name, c.relname) AS qualified
      FROM psp.tables t
      JOIN pg_namespace n ON n.nspname = t.schema_name
      JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = coalesce(t.persistent, t.table_name)
), indexes AS NOT MATERIALIZED (
    -- uniques: the columns of keys; guarded: those on which guards depend. tells_values: a row of the application has all that is in these
    -- indexes, nothing is generated there
    SELECT t.table_id, array_agg(a.attname) FILTER (WHERE i.unique AND NOT i.is_odd AND a.attnum = ANY (i.keys)) AS uniques,
           array_agg(a.attname) FILTER (WHERE i.guarded) AS guarded,
           NOT bool_or(t.versioned OR i.whole_row OR a.attgenerated <> '') AS tells_values
      FROM tables t
     CROSS JOIN LATERAL (SELECT t.relation UNION SELECT p.relid FROM pg_partition_tree(t.relation) p) p(relation)
     CROSS JOIN LATERAL (
        SELECT f.relation, f.referenced, f.unique, f.guarded, f.whole_row, x.indkey::int2[] AS keys, x.indpred IS NOT NULL OR x.indexprs IS NOT NULL AS is_odd
          FROM psp.index_facts f JOIN pg_index x ON x.indexrelid = f.index WHERE f.relation = p.relation OFFSET 0) i
      JOIN pg_attribute a ON a.attrelid = i.relation AND a.attnum = ANY (i.referenced)
     GROUP BY t.table_id
), columns AS NOT MATERIALIZED (
    SELECT t.table_id, c.ordinality AS n, a.attname AS name, a.attidentity = 'a' AS always,
           c.value ->> 'encoding' = 'text' AS is_text,
           CASE WHEN c.value ->> 'encoding' = 'text' THEN 'text'::regtype::oid ELSE b.plain END AS element,
           format_type(a.atttypid, a.atttypmod) AS type_name,
           psp.given_value(c.value, c.ordinality) AS given,
           a.attname = ANY (i.uniques) AS is_unique, a.attname = ANY (i.guarded) AS is_guarded,
           t.key_columns @> jsonb_build_array(jsonb_build_object('name', a.attname))
           AND b.plain = ANY ('{bool,"char",name,int2,int4,int8,oid,text,varchar,bytea,date,time,timestamp,timestamptz,uuid}'::regtype[])
           AND NOT EXISTS (SELECT FROM pg_collation o WHERE o.oid = a.attcollation AND NOT o.collisdeterministic) AS is_exact
      FROM tables t JOIN indexes i USING (table_id) CROSS JOIN jsonb_array_elements(t.columns) WITH ORDINALITY c
      JOIN pg_attribute a ON a.attname = c.value ->> 'name' AND NOT a.attisdropped
      JOIN psp.plain_types b ON b.type = a.atttypid
     WHERE a.attrelid = t.relation
), keys AS NOT MATERIALIZED (
    SELECT t.table_id, k.ordinality AS n, a.attname AS name, b.plain AS element,
           -- PostgreSQL finds no operator of an enum for a domain over it.
           CASE WHEN b.plain <> a.atttypid THEN '::' || format_type(b.plain, -1) ELSE '' END AS undomained,
           (SELECT psp.given_value(c.value, c.ordinality) FROM jsonb_array_elements(t.columns) WITH ORDINALITY c
             WHERE c.value -> 'name' = k.value -> 'name') AS given
      FROM tables t, jsonb_array_elements(t.key_columns) WITH ORDINALITY k
      JOIN pg_attribute a ON a.attname = k.value ->> 'name' AND NOT a.attisdropped
      JOIN psp.plain_types b ON b.type = a.atttypid
     WHERE a.attrelid = t.relation
), column_texts AS (
    SELECT table_id,
           string_agg(format('c%s %s', n, format_type(element, -1)), ', ' ORDER BY n) AS row_fields,
           string_agg(format('c%s %s', n, type_name), ', ' ORDER BY n) FILTER (WHERE is_text) AS row_values,
           string_agg(format('%I', name), ', ' ORDER BY n) AS names,
           string_agg(given, ', ' ORDER BY n) AS selected,
           string_agg('psp_r.c' || n, ', ' ORDER BY n) FILTER (WHERE is_text) AS texts,
           string_agg(format('%I = EXCLUDED.%I', name, name), ', ' ORDER BY n) FILTER (WHERE NOT always) AS assignments,
           string_agg(format('%I = EXCLUDED.%I', name, name), ', ' ORDER BY n) FILTER (WHERE NOT always AND NOT is_unique) AS others,
           string_agg(format('%I = %s', name, given), ', ' ORDER BY n) FILTER (WHERE NOT always) AS given_assignments,
           -- null: they always do
           psp.same_bytes(string_agg(format('psp_t.%I', name), ', ' ORDER BY n) FILTER (WHERE is_unique AND NOT is_exact),
                          string_agg(format('EXCLUDED.%I', name), ', ' ORDER BY n) FILTER (WHERE is_unique AND NOT is_exact)) AS keys_stay,
           psp.same_bytes(string_agg(format('psp_t.%I', name), ', ' ORDER BY n) FILTER (WHERE is_unique AND NOT is_exact),
                          string_agg(given, ', ' ORDER BY n) FILTER (WHERE is_unique AND NOT is_exact)) AS given_keys_stay,
           psp.same_bytes(string_agg(format('psp_t.%I', name), ', ' ORDER BY n) FILTER (WHERE is_guarded),
                          string_agg(given, ', ' ORDER BY n) FILTER (WHERE is_guarded)) AS guarded_stay
      FROM columns GROUP BY table_id
), key_texts AS (
    SELECT table_id,
           string_agg(format('k%s %s', n, format_type(element, -1)), ', ' ORDER BY n) AS key_fields,
           string_agg(format('%I', name), ', ' ORDER BY n) AS names,
           string_agg(format('psp_t.%I%s OPERATOR(pg_catalog.=) psp_u.k%s', name, undomained, n), ' AND ' ORDER BY n) AS matches,
           string_agg(format('psp_t.%1$I%2$s OPERATOR(pg_catalog.=) %3$s%2$s', name, undomained, given), ' AND ' ORDER BY n) AS given_matches
      FROM keys GROUP BY table_id
), sources AS (
    SELECT t.*, i.tells_values, c.row_fields, c.row_values, k.key_fields, c.names, c.selected, c.assignments, c.others, c.given_assignments,
           c.keys_stay, c.given_keys_stay, c.guarded_stay, k.names AS key_names, k.matches, k.given_matches,
           CASE WHEN c.texts IS NOT NULL
                THEN format(', ROW(%s)::pg_catalog.text::psp.apply_values_%s AS psp_values', c.texts, table_id) END AS read_texts,
           'pg_catalog.unnest(psp_keys) AS psp_u' AS keys
      FROM tables t JOIN indexes i USING (table_id) JOIN column_texts c USING (table_id) JOIN key_texts k USING (table_id)
), given AS (
    SELECT *, format('(SELECT psp_r.*%s FROM pg_catalog.unnest(psp_rows) AS psp_r OFFSET 0) AS psp_u', read_texts) AS given FROM sources
), inserts AS (
    SELECT *, CASE WHEN versioned
                   THEN format('INSERT %s INTO %s AS psp_t (%s, deleted, global_t) SELECT %s, false, psp_u.t', mark, qualified, names, selected)
                   ELSE format('INSERT %s INTO %s AS psp_t (%s) OVERRIDING SYSTEM VALUE SELECT %s', mark, qualified, names, selected) END
              || ' FROM ' || given AS insert_rows,
              format(' ON CONFLICT (%s) DO ', key_names) ||
              -- <=: a row whose unique value changes hands is a tombstone of the same global_t by then.
              CASE WHEN versioned
                   THEN format('UPDATE SET %s, deleted = false, global_t = EXCLUDED.global_t '
                               'WHERE psp_t.global_t OPERATOR(pg_catalog.<=) EXCLUDED.global_t', assignments)
                   WHEN tells_values THEN coalesce('UPDATE SET ' || others || coalesce(' WHERE ' || keys_stay, ''), 'NOTHING')
                   ELSE coalesce('UPDATE SET ' || assignments, 'NOTHING') END AS on_conflict
      FROM given
)
SELECT table_id, relation, psp.is_written_by_module(table_id, relation) AS by_module, psp.has_loud_triggers(relation) AS has_loud_triggers,
       row_fields || CASE WHEN versioned THEN ', t bigint' ELSE '' END AS row_fields,
       key_fields || CASE WHEN versioned THEN ', t bigint' ELSE '' END AS key_fields,
       row_values,
       -- What is deleted stays as a tombstone, which an insertion would meet.
       insert_rows || CASE WHEN versioned THEN on_conflict ELSE '' END AS insert_rows,
       -- After those that are new or keep their keys the few whose keys are equal but not identical, or are NULL now.
       insert_rows || on_conflict || CASE WHEN tells_values AND given_assignments IS NOT NULL AND given_keys_stay IS NOT NULL THEN psp.fill($$;
    GET DIAGNOSTICS psp_written = ROW_COUNT;
    IF psp_written OPERATOR(pg_catalog.<) pg_catalog.cardinality(psp_rows) THEN
        UPDATE {mark} {table} AS psp_t SET {assignments} FROM {given} WHERE {matches} AND NOT {keys_stay};
    END IF$$, jsonb_build_object('mark', mark, 'table', qualified, 'assignments', given_assignments, 'given', given, 'matches', given_matches,
                                 'keys_stay', given_keys_stay)) ELSE '' END AS upsert_rows,
       -- null: there is nothing that a row could give up, or rows do not tell
       CASE WHEN tells_values
            THEN format('DELETE %s FROM %s AS psp_t USING %s WHERE %s AND NOT ', mark, qualified, given, given_matches) || guarded_stay END AS make_way_rows,
       CASE WHEN versioned
            THEN format('UPDATE %s %s AS psp_t SET deleted = true, global_t = psp_u.t FROM %s '
                        'WHERE %s AND psp_t.global_t OPERATOR(pg_catalog.<) psp_u.t', mark, qualified, keys, matches)
            ELSE format('DELETE %s FROM %s AS psp_t USING %s WHERE %s', mark, qualified, keys, matches) END AS delete_rows,
       format('DELETE %s FROM %s AS psp_t', mark, qualified) AS delete_all_rows,
       format('EXECUTE pg_catalog.format(%L, psp_aggregate, psp_column, psp_operator, psp_until) INTO psp_furthest',
              format('SELECT pg_catalog.%%s(%%I) FROM %s WHERE %%2$I OPERATOR(pg_catalog.%%s) %%L::pg_catalog.int8',
                     replace(qualified, '%', '%%'))) AS read_furthest
  FROM inserts;

-- What a function does. Code of triggers may fail where others' rows are written, and keeps no row away by that: the statements run again without it
-- (sql/native/install/triggers_aside.sql). What fails then, too, is the rows' error, and all is as before. The daemon cancels those that run for too
-- long (psp.watch_triggers).
CREATE FUNCTION psp.apply_body(statements text, has_loud_triggers boolean) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT replace(CASE WHEN has_loud_triggers THEN $body$
#variable_conflict use_column
DECLARE
    psp_written bigint;
    psp_context pg_catalog.text;
    psp_problem pg_catalog.text;
    psp_aside   pg_catalog.text;
BEGIN
    BEGIN
        psp_aside := psp.set_triggers_aside(NULL);
    {statements};
        PERFORM psp.mark_triggers(NULL);
    EXCEPTION WHEN OTHERS OR query_canceled OR assert_failure THEN
        GET STACKED DIAGNOSTICS psp_context = PG_EXCEPTION_CONTEXT, psp_problem = MESSAGE_TEXT;
        IF NOT psp.may_be_of_trigger(SQLSTATE, psp_context) THEN
            RAISE;
        END IF;
        psp_problem := pg_catalog.left(psp_problem, 1000);
        psp_aside := psp.set_triggers_aside(psp_problem);
    {statements};
        RAISE WARNING 'psp: no longer for rows of other servers: trigger %: %', psp_aside, psp_problem;
    END;
END$body$ ELSE $body$
#variable_conflict use_column
DECLARE
    psp_written bigint;
BEGIN
    {statements};
END$body$ END, '{statements}', statements)
$$;

-- What the worker does while it writes rows of others, and no triggers: code of the tables' owners may run in it. A name; null: it does something else, which may
-- take long, or waits for a lock of a transaction, which others end. (An advisory lock may be a session's, for ever.)
CREATE FUNCTION psp.writing_rows(worker integer) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
BEGIN
    RETURN (SELECT format('psp apply worker, triggers since %s: rows', a.query_start) FROM pg_stat_activity a
             WHERE a.pid = worker AND a.usename = current_user AND a.state = 'active'
               AND a.query ~ '\mpsp\.apply_(insert|upsert|make_way|delete)_' AND a.query !~ '\mpsp\.apply_(clear_|(insert|upsert)_@SCHEMA_HISTORY_ID@\M)'
               AND NOT coalesce(a.wait_event_type = 'Lock' AND a.wait_event <> 'advisory', false));
END $$;

-- For the daemon's blocker watch. What the worker does while triggers may run in it (psp.mark_triggers; of a table and a transaction that nobody else may see
-- yet): a name. What is `overdue` is ended: the first time by a cancel, which sets aside. Code that has caught one goes on; then the session is
-- terminated, and the worker sets the table's triggers aside when it comes back. (If it is quicker than this transaction, it does so the next time.)
CREATE FUNCTION psp.watch_triggers(worker integer, overdue text, again boolean, OUT name text, OUT ended boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' SET standard_conforming_strings = on AS $$
DECLARE
    number bigint;  -- of the table
BEGIN
    WITH locks AS MATERIALIZED (
        SELECT * FROM pg_locks l WHERE l.pid = worker
    ), marks AS (
        SELECT l.objid::bigint AS number, l.classid::bigint & 65535 AS call, l.classid::bigint >> 16 AS kind
          FROM locks l WHERE l.locktype = 'advisory' AND l.objsubid = 1
    ), tables AS NOT MATERIALIZED (
        SELECT r.table_id, EXISTS (SELECT FROM locks l WHERE (l.locktype, l.relation, l.mode) = ('relation', r.relation, 'RowExclusiveLock')) AS is_written
          FROM psp.captured_relations r
    )
    SELECT m.number, format('psp apply worker, triggers since %s: call %s, table %s', a.query_start, m.call, m.number) INTO number, name
      FROM marks m CROSS JOIN LATERAL (SELECT bool_or(t.is_written) AS is_written FROM tables t WHERE t.table_id = m.number) t, pg_stat_activity a
     WHERE m.kind = x'7073'::integer AND NOT EXISTS (SELECT FROM marks e WHERE e.kind = x'7074'::integer AND e.call = m.call)
       -- Any code may take such locks. A table that it may not write is not locked so. (Null: one of this transaction, which nobody else sees.)
       AND t.is_written IS NOT FALSE
       AND a.pid = worker AND a.usename = current_user AND a.state = 'active'
     ORDER BY t.is_written DESC NULLS LAST, m.call DESC LIMIT 1;
    name := coalesce(name, psp.writing_rows(worker), '');
    ended := name <> '' AND name = overdue;
    IF ended AND again THEN
        ended := pg_terminate_backend(worker);  -- first: the worker's transaction may have taken the row away
        INSERT INTO psp.triggers_to_set_aside SELECT number, 'they do not end, and catch their cancel' WHERE number IS NOT NULL ON CONFLICT DO NOTHING;
    ELSIF ended THEN
        PERFORM pg_cancel_backend(worker);
    END IF;
END $$;

-- The functions of a table, in place of what there is, and the types of their parameters, which stay if they are there. Needs a
-- superuser: functions get other owners. Values are read as the capture has written them, and `path` is the owner's search_path. Deletions are planned
-- each time: a join that was planned for a small table would read all of the grown one.
CREATE FUNCTION psp.create_functions_of(t psp.apply_statements, path text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f record;
    functions regproc[];
    text_settings text := '';
    plans_each_time CONSTANT text := 'SET plan_cache_mode = force_custom_plan';
BEGIN
    IF to_regtype(format('psp.apply_rows_%s', t.table_id)) IS NULL THEN
        EXECUTE format('CREATE TYPE psp.apply_rows_%s AS (%s)', t.table_id, t.row_fields);
        EXECUTE format('CREATE TYPE psp.apply_keys_%s AS (%s)', t.table_id, t.key_fields);
        IF t.row_values IS NOT NULL THEN
            EXECUTE format('CREATE TYPE psp.apply_values_%s AS (%s)', t.table_id, t.row_values);
        END IF;
    END IF;
    IF t.row_values IS NOT NULL THEN
        text_settings := $s$SET xmloption = content SET datestyle = 'ISO, MDY' SET intervalstyle = 'postgres' SET lc_monetary = 'C' $s$;
    END IF;
    -- (advance_sequences calls apply_furthest.)
    FOR f IN
        SELECT v.*, t.by_module AND v.reads IS NOT NULL AS by_module, format('psp.apply_%s_%s', v.kind, t.table_id) AS name
          FROM (VALUES
            ('insert', format('psp_rows psp.apply_rows_%s[]', t.table_id), t.insert_rows, text_settings, '', 'void'),
            ('upsert', format('psp_rows psp.apply_rows_%s[]', t.table_id), t.upsert_rows, text_settings, '', 'void'),
            ('make_way', format('psp_rows psp.apply_rows_%s[]', t.table_id), t.make_way_rows, text_settings, plans_each_time, 'void'),
            ('delete', format('psp_keys psp.apply_keys_%s[]', t.table_id), t.delete_rows, '', plans_each_time, 'void'),
            ('clear', '', t.delete_all_rows, NULL, '', 'void'),
            ('furthest', 'psp_column name, psp_aggregate text, psp_operator text, psp_until bigint, OUT psp_furthest numeric',
             t.read_furthest, NULL, '', 'numeric')) v(kind, parameters, statements, reads, plans, returns)
    LOOP
        IF f.statements IS NULL THEN
            IF to_regproc(f.name) IS NOT NULL THEN
                EXECUTE format('DROP FUNCTION %s', f.name);
            END IF;
            CONTINUE;
        END IF;
        EXECUTE format('CREATE OR REPLACE FUNCTION %s(%s) RETURNS %s SECURITY DEFINER SET search_path = %s %s', f.name, f.parameters, f.returns, path, f.reads)
                || CASE WHEN f.by_module THEN format('LANGUAGE c AS %L, %L', 'psp_capture', 'psp_apply_' || f.kind)
                        ELSE format('%s LANGUAGE plpgsql AS %L', f.plans,
                                    psp.apply_body(f.statements, t.has_loud_triggers AND f.kind <> 'furthest')) END;
        functions := functions || f.name::regproc;
    END LOOP;
    PERFORM psp.give_to_owner(functions, t.relation);
END $$;

-- The functions of these tables in psp.tables. One query reads what is to be done to all of them, since to begin it takes longer than what it
-- does for a table.
CREATE FUNCTION psp.create_apply_functions(table_ids integer[], paths text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT w.table_id, w.path, s.statements
          FROM unnest(table_ids, paths) w(table_id, path)
          LEFT JOIN LATERAL (SELECT a FROM psp.apply_statements a WHERE a.table_id = w.table_id OFFSET 0) s(statements) ON true
    LOOP
        IF one.statements IS NULL THEN
            RAISE EXCEPTION 'psp: table % is not in psp.tables', one.table_id;
        END IF;
        PERFORM psp.create_functions_of(one.statements, one.path);
    END LOOP;
END $$;

-- Until the end of the transaction a deadlock is the other one's loss.
CREATE FUNCTION psp.insist_on_locks() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF pg_catalog.has_parameter_privilege('deadlock_timeout', 'SET') THEN
        PERFORM pg_catalog.set_config('deadlock_timeout', '1min', true);
    END IF;
END $$;

-- After code of others has run in the worker's session: what it may have left there. A cursor WITH HOLD would run its query
-- at COMMIT, as the worker's role; settings would last; notifications would come without end. (The worker's own ones are given when it connects, and so come back.)
CREATE FUNCTION psp.reset_apply_session() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE 'CLOSE ALL';
    EXECUTE 'UNLISTEN *';
    RESET ALL;
END $$;

-- Those of these own commits that have no proof of being in, separated by commas; NULL: all are in.
CREATE FUNCTION psp.missing_proofs(own bigint[]) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT string_agg(m.global_t::text, ',') FROM unnest(own) AS m(global_t)
             WHERE NOT EXISTS (SELECT FROM psp.applied a WHERE a.global_t = m.global_t));
END $$;

-- A copy begins. W may go back by that, if the primary was restored from a backup.
CREATE FUNCTION psp.begin_copy() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM psp.watermarks;
    INSERT INTO psp.watermarks VALUES (-1);
$$;

-- The end of a batch: W moves to `upto`, and the proofs of own commits above `below` that are below W now go.
CREATE FUNCTION psp.end_batch(below bigint, upto bigint, durable boolean, joined boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM psp.reset_apply_session();
    IF durable THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    INSERT INTO psp.watermarks VALUES (upto);
    DELETE FROM psp.applied WHERE global_t > below AND global_t <= upto;
    IF joined THEN
        UPDATE psp.identity SET joining = false;
    END IF;
END $$;
