-- The server module psp_capture (capture_module/), where it captures and commits in place of SQL. Which of the two it is stands in
-- psp.identity.capture; psp.use_capture changes it. What the module cannot write is left to SQL's triggers, in the same transaction:
-- guards with expressions or predicates, keys whose types need a hash, foreign keys between different types, ended keys.

CREATE FUNCTION psp.uses_module() RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT capture = 'module' FROM psp.identity
$$;

-- The functions that are there when it is used.
CREATE FUNCTION psp.module_functions() RETURNS name[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT '{on_sql_capture,check_foreign_tables,captured_here,note_statement,text_in_message,reads_as_statement}'::name[]
$$;

-- The facts of a table with those guards and foreign keys only that SQL captures.
CREATE FUNCTION psp.left_to_sql(facts jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT facts || jsonb_build_object(
        'guards', (SELECT coalesce(jsonb_agg(g.value ORDER BY g.ordinality), '[]')
                     FROM jsonb_array_elements(facts -> 'guards') WITH ORDINALITY g WHERE g.value -> 'members' = 'null'),
        'foreign_keys', (SELECT coalesce(jsonb_agg(k.value ORDER BY k.ordinality), '[]')
                           FROM jsonb_array_elements(facts -> 'foreign_keys') WITH ORDINALITY k WHERE k.value -> 'members' = 'null'))
$$;

-- Columns with their forms, [[name, form]], as words of the trigger: how many, then a name and a form each.
CREATE FUNCTION psp.words_of(members jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_prepend(jsonb_array_length(members)::text,
                         ARRAY(SELECT w.value #>> '{}' FROM jsonb_array_elements(members) WITH ORDINALITY m
                                CROSS JOIN LATERAL jsonb_array_elements(m.value) WITH ORDINALITY w ORDER BY m.ordinality, w.ordinality))
$$;

-- The trigger's words (capture_module/capture.c reads them): the table's number, the image, the key; then for each guard and each foreign
-- key its op, its number, whether it has keys with NULLs, the key.
CREATE FUNCTION psp.module_words(facts jsonb) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    words text[];
    other record;
BEGIN
    SELECT ARRAY[facts ->> 'table_id'] || psp.words_of(jsonb_agg(jsonb_build_array(
               c.value -> 'name',
               CASE WHEN c.value ->> 'encoding' = 'binary' THEN 'binary' WHEN (c.value ->> 'by_output')::boolean THEN 'output'
                    WHEN c.value ->> 'checked_as' IS NOT NULL THEN 'checked' ELSE 'text' END) ORDER BY c.ordinality))
      INTO words FROM jsonb_array_elements(facts -> 'columns') WITH ORDINALITY c;
    SELECT words || psp.words_of(jsonb_agg(jsonb_build_array(
               k.value -> 'name', psp.key_form(k.value ->> 'normalise', k.value ->> 'type')) ORDER BY k.ordinality))
      INTO words FROM jsonb_array_elements(facts -> 'key_columns') WITH ORDINALITY k;
    FOR other IN
        SELECT 'g' AS op, g.value ->> 'guard_id' AS number, (g.value ->> 'nulls_not_distinct')::boolean AS nulls_count, g.value -> 'members' AS members
          FROM jsonb_array_elements(facts -> 'guards') g
        UNION ALL
        SELECT 's', k.value ->> 'refers_to', false, k.value -> 'members' FROM jsonb_array_elements(facts -> 'foreign_keys') k
    LOOP
        IF other.members <> 'null' THEN
            words := words || ARRAY[other.op, other.number, other.nulls_count::integer::text] || psp.words_of(other.members);
        END IF;
    END LOOP;
    RETURN words;
END $$;

-- The module's function and trigger of a table. Each table has a function of its own: for a moment an owner may call that of his own table
-- (psp.prepare_tables), and none of another's.
CREATE FUNCTION psp.create_module_trigger(facts jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    function CONSTANT text := format('psp.capture_%s_row', facts ->> 'table_id');
BEGIN
    IF to_regproc(function) IS NULL THEN
        EXECUTE format('CREATE FUNCTION %s() RETURNS trigger LANGUAGE c AS %L, %L', function, 'psp_capture', 'psp_capture_row');
        PERFORM psp.take_from_all(ARRAY[function::regproc], 'psp_functions'::regrole);
    END IF;
    EXECUTE format('CREATE OR REPLACE TRIGGER psp_capture AFTER UPDATE%s ON %s FOR EACH ROW EXECUTE FUNCTION %s(%s)',
                   CASE WHEN psp.captures(facts, 'insert') THEN ' OR INSERT OR DELETE' ELSE '' END, facts ->> 'relation', function,
                   (SELECT string_agg(quote_literal(w.word), ', ' ORDER BY w.n) FROM unnest(psp.module_words(facts)) WITH ORDINALITY w(word, n)));
END $$;

-- psp.captured: what a transaction has captured so far, by SQL and, with `more`, elsewhere. Only psp's own functions may read it.
CREATE FUNCTION psp.create_captured(more text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE 'CREATE OR REPLACE VIEW psp.captured AS SELECT w.xid, w.table_id, w.op, w.payload, w.cmin AS cmin FROM psp.write_set w ' || more;
END $$;
SELECT psp.create_captured('');

-- Makes psp.identity.capture true of everything but the tables' own capture: which functions there are, and what COMMIT calls. With the
-- module it is the module's own callback; then psp_commit only looks for foreign tables. (A WHEN clause of psp.commit_hook's trigger would
-- be parsed again in each statement.)
CREATE FUNCTION psp.install_commit() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
BEGIN
    DROP EVENT TRIGGER IF EXISTS psp_note_statement;  -- first: if the module's file is missing, no other DDL runs
    DROP TRIGGER IF EXISTS psp_commit ON psp.commit_intent;
    IF psp.uses_module() THEN
        CREATE FUNCTION psp.on_sql_capture() RETURNS trigger LANGUAGE c AS 'psp_capture', 'psp_on_sql_capture';
        CREATE FUNCTION psp.check_foreign_tables() RETURNS trigger LANGUAGE c AS 'psp_capture', 'psp_check_foreign_tables';
        CREATE FUNCTION psp.captured_here(OUT xid xid8, OUT table_id integer, OUT op "char", OUT payload bytea, OUT cmin cid)
            RETURNS SETOF record LANGUAGE c AS 'psp_capture', 'psp_captured_here';
        CREATE FUNCTION psp.note_statement() RETURNS event_trigger LANGUAGE c AS 'psp_capture', 'psp_note_statement';
        CREATE FUNCTION psp.text_in_message() RETURNS text LANGUAGE c AS 'psp_capture', 'psp_text_in_message';
        CREATE FUNCTION psp.reads_as_statement(statement text, role name, names text[], "values" text[])
            RETURNS boolean LANGUAGE c STRICT AS 'psp_capture', 'psp_reads_as_statement';
        REVOKE ALL ON FUNCTION psp.on_sql_capture(), psp.check_foreign_tables(), psp.captured_here(), psp.note_statement(), psp.text_in_message(),
            psp.reads_as_statement(text, name, text[], text[]) FROM PUBLIC;
        GRANT EXECUTE ON FUNCTION psp.captured_here() TO psp_functions;
        PERFORM psp.create_captured('UNION ALL SELECT * FROM psp.captured_here()');
        CREATE TRIGGER psp_sql_capture AFTER INSERT ON psp.write_set FOR EACH STATEMENT EXECUTE FUNCTION psp.on_sql_capture();
        ALTER TABLE psp.write_set ENABLE ALWAYS TRIGGER psp_sql_capture;
        CREATE CONSTRAINT TRIGGER psp_commit AFTER INSERT ON psp.commit_intent DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW WHEN (NOT NEW.filler) EXECUTE FUNCTION psp.check_foreign_tables();
    ELSE
        PERFORM psp.create_captured('');
        DROP TRIGGER IF EXISTS psp_sql_capture ON psp.write_set;
        DROP FUNCTION IF EXISTS psp.on_sql_capture(), psp.check_foreign_tables(), psp.captured_here(), psp.note_statement(), psp.text_in_message(),
            psp.reads_as_statement(text, name, text[], text[]);
        CREATE CONSTRAINT TRIGGER psp_commit AFTER INSERT OR UPDATE OF step ON psp.commit_intent DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION psp.commit_hook();
    END IF;
    -- Also for a transaction that takes the replica role after it has written, or before it asks for its id.
    ALTER TABLE psp.commit_intent ENABLE ALWAYS TRIGGER psp_commit;
END $$;

-- The event trigger by which the module notes each statement (statement_text.sql), before psp_on_begin asks. Without superuser there is none.
CREATE FUNCTION psp.install_note_statement() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF psp.uses_module() AND (SELECT i.guarded FROM psp.identity i) THEN
        CREATE EVENT TRIGGER psp_note_statement ON ddl_command_start EXECUTE FUNCTION psp.note_statement();
    END IF;
END $$;
