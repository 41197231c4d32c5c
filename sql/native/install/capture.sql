-- Capture of one table: triggers write psp.write_set; psp.look_N reads rows again for the commit hook. `facts` are always those of
-- psp.capture_facts. The SQL for keys, images and the values of guards: sql/semi_primary/install/capture_facts.sql; for whole guard keys
-- (psp.guard_key): sql/semi_primary/install/guards.sql.
--
-- Each modification of a row is captured at least once, with its key. Nothing is said of the order: the daemon takes the image
-- of a key that was captured once, and has psp.look_N read the row again for a key that was captured more often
-- (writeset/FORMAT.md). So nested statements, triggers and CTEs need no rule of their own.
--
-- The functions run with the rights of psp_functions, and the caller may have set any search_path: names and operators are
-- written with their schema (a SET clause would cost as much as the capture itself), and functions with expressions of the
-- user's in them get the SET clause.

-- The SET clauses of a table's capture functions.
CREATE FUNCTION psp.capture_settings(facts jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    has_text    CONSTANT boolean := facts -> 'columns' @> '[{"encoding": "text"}]';
    has_own_sql CONSTANT boolean := EXISTS (SELECT FROM jsonb_array_elements(facts -> 'guards') g
                                             WHERE g.value -> 'arguments' = '[]' AND g.value -> 'is_plain' = 'false');
BEGIN
    RETURN CASE WHEN has_text OR has_own_sql THEN ' SET search_path = pg_catalog, pg_temp' ELSE '' END
           || CASE WHEN has_text THEN ' SET xmloption = content' || psp.text_settings() ELSE '' END;
END $$;

-- What the text forms of values depend on.
CREATE FUNCTION psp.text_settings() RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT ' SET datestyle = ''ISO, MDY'' SET intervalstyle = ''postgres'' SET extra_float_digits = 1'
           ' SET bytea_output = ''hex'' SET lc_monetary = ''C'' SET timezone = ''UTC'''
$$;

-- Whether the key's bytes stand in the image, and only their places have to be told (op 'i').
CREATE FUNCTION psp.is_key_in_image(facts jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN NOT EXISTS (
        SELECT FROM jsonb_array_elements(facts -> 'key_columns') k
         WHERE k.value ->> 'normalise' <> 'none'
            OR NOT facts -> 'columns' @> jsonb_build_array(jsonb_build_object('name', k.value -> 'name', 'encoding', 'binary')));
END $$;

-- SQL for one entry of a row that is there.
CREATE FUNCTION psp.entry_of(facts jsonb, row_name text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
BEGIN
    IF NOT psp.is_key_in_image(facts) THEN
        RETURN format('pg_catalog.record_send(ROW(%s, %s))', psp.key_of(facts, row_name), psp.image_of(facts, row_name));
    END IF;
    RETURN (SELECT format('E''\\x%s%s''::pg_catalog.bytea OPERATOR(pg_catalog.||) %s', lpad(to_hex(count(*)), 2, '0'),
                          string_agg(lpad(to_hex(c.ordinality - 1), 4, '0'), '' ORDER BY k.ordinality),
                          psp.image_of(facts, row_name))
              FROM jsonb_array_elements(facts -> 'key_columns') WITH ORDINALITY k
              JOIN jsonb_array_elements(facts -> 'columns') WITH ORDINALITY c ON c.value -> 'name' = k.value -> 'name');
END $$;

-- One row of psp.write_set for each row of `source`, and what `more` selects.
CREATE FUNCTION psp.capture_rows(facts jsonb, source text, more text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN psp.fill($template$
    INSERT INTO psp.write_set
    SELECT psp_scope.x, {table_id}, '{op}'::pg_catalog."char", {entry} FROM {source} r{more};$template$, jsonb_build_object(
        'table_id', facts -> 'table_id', 'op', CASE WHEN psp.is_key_in_image(facts) THEN 'i' ELSE 'u' END,
        'entry', psp.entry_of(facts, 'r'), 'source', source, 'more', more));
END $$;

CREATE FUNCTION psp.capture_deletes(facts jsonb, source text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN psp.fill($template$
    INSERT INTO psp.write_set
    SELECT psp_scope.x, {table_id}, 'd', pg_catalog.record_send(ROW({key})) FROM {source} r;$template$, jsonb_build_object(
        'table_id', facts -> 'table_id', 'key', psp.key_of(facts, 'r'), 'source', source));
END $$;

-- Whether an update has changed a column of an index. `old`: what it has replaced, as a FROM item; null: it is an
-- INSERT. *= compares bytes: some types
-- (json) have no equality, and a needless guard does no harm.
CREATE FUNCTION psp.is_guard_changed(facts jsonb, guard jsonb, old text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name CONSTANT text := quote_ident(facts ->> 'table_name');
    raw  CONSTANT jsonb := guard -> 'raw_columns';
BEGIN
    IF old IS NULL THEN
        RETURN '';
    END IF;
    RETURN psp.fill(' AND NOT EXISTS (SELECT FROM {old} psp_o WHERE {same_key}{same_values})', jsonb_build_object(
        'old', old,
        'same_key', (SELECT string_agg(format('psp_o.%1$I%3$s OPERATOR(pg_catalog.=) %2$s.%1$I%3$s', k.value ->> 'name', name, u.type),
                                       ' AND ' ORDER BY k.ordinality)
                       FROM jsonb_array_elements(facts -> 'key_columns') WITH ORDINALITY k
                      -- PostgreSQL finds no operator of an enum for domains over it.
                      CROSS JOIN LATERAL (SELECT CASE WHEN k.value ->> 'normalise' = 'text' AND k.value ->> 'type' <> 'bpchar'
                                                      THEN '::' || (k.value ->> 'type') ELSE '' END) u(type)),
        'same_values', CASE WHEN raw = '[]' THEN ''
                            ELSE format(' AND ROW(%s)::pg_catalog.record OPERATOR(pg_catalog.*=) ROW(%s)::pg_catalog.record',
                                        psp.name_list(raw, 'psp_o.'), psp.name_list(raw, name || '.')) END));
END $$;

-- Values of unique indexes that rows take: all of an INSERT's, the changed ones of an UPDATE's. Expressions name columns bare or
-- by the table's name.
CREATE FUNCTION psp.capture_guards(facts jsonb, source text, old text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    by_owner CONSTANT text := $template$
    INSERT INTO psp.write_set
    SELECT psp_scope.x, {guard_id}, 'g', pg_catalog.record_send(ROW(psp_g.psp_key))
      FROM (SELECT psp.guard_{guard_id}({arguments}) AS psp_key
              FROM {source} AS {table} WHERE {partition}{changed} OFFSET 0) psp_g
     WHERE psp_g.psp_key IS NOT NULL;$template$;
    here CONSTANT text := $template$
    INSERT INTO psp.write_set
    SELECT psp_scope.x, {guard_id}, 'g', pg_catalog.record_send(ROW({key}))
      FROM {source} AS {table}
     WHERE {partition} AND {condition}{changed};$template$;
BEGIN
    RETURN (SELECT coalesce(string_agg(
                       psp.fill(CASE WHEN g.value -> 'arguments' = '[]' THEN here ELSE by_owner END, jsonb_build_object(
                           'guard_id', g.value -> 'guard_id', 'source', source, 'table', quote_ident(facts ->> 'table_name'),
                           'arguments', psp.name_list(g.value -> 'arguments', ''),
                           'partition', coalesce(g.value ->> 'partition', 'true'),
                           'key', psp.guard_key(g.value), 'condition', psp.guard_condition(g.value),
                           'changed', psp.is_guard_changed(facts, g.value, old))), '' ORDER BY g.ordinality), '')
              FROM jsonb_array_elements(facts -> 'guards') WITH ORDINALITY g);
END $$;

CREATE FUNCTION psp.refuse_trigger(name name, relation oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('psp: trigger %I of table %s is not psp''s own', name, relation::regclass),
        DETAIL = 'It calls a function that captures rows for psp.', HINT = 'Drop the trigger.';
END $$;

-- The name of the trigger that calls a capture function.
CREATE FUNCTION psp.capture_trigger_name(suffix text) RETURNS name
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE suffix WHEN 'ended' THEN 'PSP_ended' ELSE 'psp_capture_' || suffix END
$$;

-- One capture function. Only psp's own trigger may call it (psp.check_trigger lets nobody make one of that name): an owner's could tell it of
-- rows that the table does not have. The label and use_column: a column may have any name, also that of a variable. Binary text is in the
-- client's encoding: psp's is UTF8, the application's may be another.
CREATE FUNCTION psp.create_capture_function(facts jsonb, suffix text, statements text) RETURNS regproc
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    template CONSTANT text := $template$
#variable_conflict use_column
<<psp_scope>>
DECLARE
    x CONSTANT pg_catalog.xid8 := pg_catalog.pg_current_xact_id();
    decided pg_catalog.bool;
    client_encoding CONSTANT pg_catalog.name := pg_catalog.pg_client_encoding();
BEGIN
    IF TG_NAME OPERATOR(pg_catalog.<>) '{trigger}' THEN
        PERFORM psp.refuse_trigger(TG_NAME, TG_RELID);
    END IF;
    IF psp_scope.client_encoding OPERATOR(pg_catalog.<>) 'UTF8' THEN
        PERFORM pg_catalog.set_config('client_encoding', 'UTF8', true);
    END IF;
    SELECT i.decided INTO psp_scope.decided FROM psp.commit_intent i WHERE i.xid OPERATOR(pg_catalog.=) psp_scope.x;
    IF psp_scope.decided IS NOT FALSE THEN
        psp_scope.decided := psp.begin_intent(psp_scope.x, psp_scope.decided);  -- costs less than PERFORM
    END IF;{statements}
    IF psp_scope.client_encoding OPERATOR(pg_catalog.<>) 'UTF8' THEN
        PERFORM pg_catalog.set_config('client_encoding', psp_scope.client_encoding, true);
    END IF;
    RETURN NULL;
END $template$;
    name CONSTANT text := format('psp.capture_%s_%s', facts ->> 'table_id', suffix);
BEGIN
    EXECUTE format('CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER%s AS %L', name,
                   psp.capture_settings(facts), psp.fill(template, jsonb_build_object('statements', statements, 'trigger', psp.capture_trigger_name(suffix))));
    PERFORM psp.give(ARRAY[format('FUNCTION %s()', name)], 'psp_functions');  -- function_owner.sql
    RETURN name;
END $$;

-- Drops it, if it is there, and its trigger.
CREATE FUNCTION psp.drop_capture_function(function text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF to_regproc(function) IS NOT NULL THEN
        EXECUTE format('DROP FUNCTION %s() CASCADE', function);
    END IF;
END $$;

-- Whether a table's rows are captured when this happens to them. psp.requests: they are when they get their result, and not when they have become old.
-- psp.schema_history: when the statement has run, and is told what it has left.
CREATE FUNCTION psp.captures(facts jsonb, event text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT event = 'update' OR (facts ->> 'table_id')::bigint NOT IN (@SCHEMA_HISTORY_ID@, @REQUESTS_ID@)
$$;

-- What a capture function of a table does; an empty text: there is none. With the server module SQL captures only what that cannot
-- (psp.left_to_sql). An update that changes the key: the old key is gone. A row trigger does that, called only when the statement sets
-- a key column, unless the key may change otherwise. A WHEN clause would be parsed again in every statement and cost more than the call.
CREATE FUNCTION psp.capture_statements(facts jsonb) RETURNS TABLE (suffix text, statements text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    by_row   CONSTANT boolean := facts ->> 'partitioned';
    new_rows CONSTANT text := CASE WHEN by_row THEN '(SELECT NEW.*)' ELSE 'psp_new' END;
    old_rows CONSTANT text := CASE WHEN by_row THEN '(SELECT OLD.*)' ELSE 'psp_old' END;
    rest     jsonb;
BEGIN
    IF psp.uses_module() THEN
        rest := psp.left_to_sql(facts);
        RETURN QUERY VALUES ('insert', psp.shares_of_new_rows(rest, new_rows, 'INSERT INTO psp.write_set', ';') || psp.capture_guards(rest, new_rows, NULL)),
                            ('update', psp.capture_guards(rest, new_rows, old_rows)), ('delete', ''), ('rekey', '');
        RETURN;
    END IF;
    RETURN QUERY VALUES
        -- Shares in the statement that captures the rows: one of its own for each costs a tenth more of all that an INSERT costs.
        ('insert', psp.capture_rows(facts, new_rows, psp.shares_of_new_rows(facts, new_rows, 'UNION ALL', ''))
                   || psp.capture_guards(facts, new_rows, NULL)),
        ('update', psp.capture_rows(facts, new_rows, '') || psp.capture_guards(facts, new_rows, old_rows)),
        ('delete', psp.capture_deletes(facts, old_rows)),
        ('rekey', psp.fill($template$
    IF {old_key} OPERATOR(pg_catalog.<>) {new_key} THEN{deletes}
    END IF;$template$, jsonb_build_object(
            'old_key', psp.key_of(facts, 'OLD'), 'new_key', psp.key_of(facts, 'NEW'), 'deletes', psp.capture_deletes(facts, '(SELECT OLD.*)'))));
END $$;

-- The triggers of a table. PostgreSQL gives row triggers to the partitions, too, and to those that are attached later.
CREATE FUNCTION psp.capture_trigger(facts jsonb, suffix text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    template CONSTANT text := $template$
CREATE OR REPLACE TRIGGER psp_capture_{suffix} AFTER {event} ON {table} {rows} EXECUTE FUNCTION psp.capture_{table_id}_{suffix}()$template$;
BEGIN
    RETURN psp.fill(template, facts || jsonb_build_object(
        'suffix', suffix, 'table', facts -> 'relation',
        'event', CASE WHEN suffix <> 'rekey' THEN upper(suffix)
                      ELSE 'UPDATE' || CASE WHEN (facts ->> 'key_may_change')::boolean THEN ''
                                            ELSE ' OF ' || psp.name_list(facts -> 'key_columns', '') END END,
        'rows', CASE WHEN suffix = 'rekey' OR (facts ->> 'partitioned')::boolean THEN 'FOR EACH ROW'
                     ELSE 'REFERENCING '
                          || CASE WHEN suffix = 'delete' OR suffix = 'update' AND facts -> 'guards' <> '[]' THEN 'OLD TABLE AS psp_old ' ELSE '' END
                          || CASE WHEN suffix <> 'delete' THEN 'NEW TABLE AS psp_new ' ELSE '' END || 'FOR EACH STATEMENT' END));
END $$;

CREATE FUNCTION psp.create_capture_triggers(facts jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- On each relation: they do not come from the parent.
    on_each CONSTANT text := $template$
CREATE OR REPLACE TRIGGER psp_truncate BEFORE TRUNCATE ON {relation}
    FOR EACH STATEMENT EXECUTE FUNCTION psp.on_truncate({table_id});
CREATE OR REPLACE TRIGGER psp_truncated AFTER TRUNCATE ON {relation}
    FOR EACH STATEMENT EXECUTE FUNCTION psp.record_truncation();
CREATE OR REPLACE TRIGGER psp_refuse_replica BEFORE INSERT OR UPDATE OR DELETE ON {relation}
    FOR EACH STATEMENT EXECUTE FUNCTION psp.refuse_replica();
ALTER TABLE ONLY {relation} ENABLE REPLICA TRIGGER psp_refuse_replica,
    ENABLE ALWAYS TRIGGER psp_truncate, ENABLE ALWAYS TRIGGER psp_truncated;$template$;
    needed    record;
    functions regproc[];
    relation  text;
BEGIN
    FOR needed IN SELECT s.suffix, s.statements, format('psp.capture_%s_%s', facts ->> 'table_id', s.suffix) AS function
                    FROM psp.capture_statements(facts) s LOOP
        IF needed.statements <> '' AND psp.captures(facts, needed.suffix) THEN
            functions := functions || psp.create_capture_function(facts, needed.suffix, needed.statements);
            EXECUTE psp.capture_trigger(facts, needed.suffix);
        ELSE
            PERFORM psp.drop_capture_function(needed.function);
        END IF;
    END LOOP;
    PERFORM psp.take_from_all(functions, 'psp_functions'::regrole);
    IF psp.uses_module() THEN
        PERFORM psp.create_module_trigger(facts);
    ELSE
        PERFORM psp.drop_capture_function(format('psp.capture_%s_row', facts ->> 'table_id'));
    END IF;
    FOR relation IN SELECT r.value FROM jsonb_array_elements_text(facts -> 'relations') r LOOP
        EXECUTE psp.fill(on_each, jsonb_build_object('relation', relation, 'table_id', facts -> 'table_id'));
    END LOOP;
END $$;

-- psp.look_N: the rows that the transaction sees under these keys, as entries of op 'u'; null when there are none. texts[n] are
-- the key's values as text, the daemon's own; the key's bytes decide, the texts only let PostgreSQL use the index.
-- row_security: a row that a policy hides from the owner is an error here, and not a row that is gone.
CREATE FUNCTION psp.create_look(facts jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    template CONSTANT text := $template$
#variable_conflict use_column
BEGIN{check}
    RETURN (SELECT string_agg(record_send(ROW(psp_k.psp_key, {image})), '')
              FROM (SELECT {look}.keys[n] AS psp_key{values}
                      FROM generate_subscripts({look}.keys, 1) n OFFSET 0) psp_k
              JOIN {table} r ON {matches}{key} = psp_k.psp_key);
END $template$;
    check_texts CONSTANT text := $template$
    IF EXISTS (SELECT FROM generate_subscripts({look}.keys, 1) n
                WHERE {missing}) THEN
        RAISE EXCEPTION 'psp: the daemon knows no text for a key of table {table_id}';
    END IF;$template$;
    look  CONSTANT text := 'look_' || (facts ->> 'table_id');
    parts jsonb;
BEGIN
    SELECT jsonb_build_object(
               'look', look, 'table_id', facts -> 'table_id', 'table', facts -> 'relation', 'image', psp.image_of(facts, 'r'),
               'key', psp.key_of(facts, 'r'),
               'values', coalesce(string_agg(format(', %s.texts[n][%s]::%s AS psp_k%2$s', look, k.ordinality, k.value ->> 'look'), ''
                                             ORDER BY k.ordinality), ''),
               'matches', coalesce(string_agg(format('r.%I = psp_k.psp_k%s AND ', k.value ->> 'name', k.ordinality), ''
                                              ORDER BY k.ordinality), ''),
               'missing', string_agg(format('%s.texts[n][%s] IS NULL', look, k.ordinality), ' OR ' ORDER BY k.ordinality))
      INTO parts
      FROM jsonb_array_elements(facts -> 'key_columns') WITH ORDINALITY k WHERE k.value ->> 'look' IS NOT NULL;
    EXECUTE format('CREATE FUNCTION psp.%s(keys pg_catalog.bytea[], texts pg_catalog.text[]) RETURNS pg_catalog.bytea LANGUAGE plpgsql '
                   'SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off%s AS %L', look, psp.text_settings(),
                   psp.fill(template, parts || jsonb_build_object(
                       'check', CASE WHEN parts ->> 'missing' IS NULL THEN '' ELSE psp.fill(check_texts, parts) END)));
    PERFORM psp.give_to_owner(ARRAY[('psp.' || look)::regproc], (facts ->> 'relation')::regclass);
END $$;
