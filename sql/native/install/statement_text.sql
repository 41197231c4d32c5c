-- The text of an ordinary DDL statement (plain_ddl.sql): it is a part of the client's message, or of a DO block or a function
-- in PL/pgSQL, which PostgreSQL quotes in the context of an error.

-- Whether a message may have several statements. One that begins with a comment passes for such a message.
CREATE FUNCTION psp.may_have_several(message text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT position(';' IN rtrim(message, E'; \t\r\n\f')) > 0 OR message !~ '^[ \t\r\n\f]*[A-Za-z(]'
$$;

-- Whether one of the functions of a context is an event trigger's. Some are named with their schemas, some are not.
CREATE FUNCTION psp.is_in_event_trigger(context text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
BEGIN
    RETURN EXISTS (SELECT FROM regexp_matches(context, '\nPL/pgSQL function (?:[^\n(]*\.)?"?([^\n("]+)"?\(\) line ', 'g') f(name)
                     JOIN pg_proc p ON p.proname = f.name[1] JOIN pg_event_trigger e ON e.evtfoid = p.oid);
END $$;

-- The text of a statement that a DO block or a function runs, in PL/pgSQL; null: another language does, psp, an event trigger of others, or the text
-- may have variables in it, which only those of CREATE TABLE AS can. context: PL/pgSQL's, from psp's event trigger to the client.
CREATE FUNCTION psp.text_in_code(tag text, context text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    parts CONSTANT text[] := regexp_match(substr(context, position(E'\n' IN context) + 1),
                                          '^SQL statement "(.*?)"\nPL/pgSQL function (?!psp\.(?!ddl\())[^\n]+ line \d+ at ([^\n]+)(?:\n|$)');
BEGIN
    RETURN CASE WHEN parts[1] !~ '"\n(SQL|PL/)' AND (tag <> 'CREATE TABLE AS' OR parts[2] = 'EXECUTE')
                     AND NOT psp.is_in_event_trigger(context) THEN parts[1] END;
END $$;

-- Whether a function has run the statement, one that a text of psp.ddl calls, or another statement. (psp.run_statement runs a text in a function, too.)
CREATE FUNCTION psp.is_in_function(context text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    above CONSTANT text := split_part(context, E'\nPL/pgSQL function pg_temp_', 1);
BEGIN
    RETURN above ~ '\n(PL/pgSQL|SQL) function ' AND NOT psp.is_in_event_trigger(context);
END $$;

-- Whether a text of psp.ddl is a query, a call or a block, and nothing else. In a block are semicolons, but none is behind its last quote.
CREATE FUNCTION psp.is_query(statement text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    bare  CONSTANT text := psp.bare_statement(statement);
    quote CONSTANT text := substring(bare FROM '(?i)^do\s*(\$\w*\$|'')');
BEGIN
    IF right(bare, length(quote)) = quote AND cardinality(string_to_array(bare, quote)) = 3 THEN
        RETURN true;
    END IF;
    RETURN bare ~* '^(select|with|values|call|do)\M'
           AND (NOT psp.may_have_several(bare) OR psp.ask_about('statements', convert_to(statement, 'UTF8')) ~ '^other [^\n]*$');
END $$;

-- Whether psp.ddl runs a text as it is, so that what it runs goes with the stream by itself: a query, or one statement that copies indexes, whose
-- definitions go along (psp.note_copies). role: that calls psp.ddl.
CREATE FUNCTION psp.runs_as_it_is(statement text, role name) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN psp.is_query(statement)
           OR psp.copies_indexes(statement) AND NOT psp.may_have_several(psp.bare_statement(statement))
              AND role = psp.role_of_statement() AND psp.goes_with_stream();
END $$;

-- A text of psp.ddl, which runs in a transaction: without the word that PostgreSQL allows in none.
CREATE FUNCTION psp.without_concurrently(statement text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    bare  CONSTANT text := psp.bare_statement(statement);
    parts text[];
BEGIN
    IF bare ~* 'concurrently' AND NOT psp.may_have_several(bare) THEN
        parts := coalesce(regexp_match(bare, psp.with_gaps('^(create (?:unique )?index|drop index) concurrently\M(.*)$'), 'i'),
                          regexp_match(bare, psp.with_gaps('^(alter table .* detach partition .*) concurrently()$'), 'i'));
    END IF;
    IF parts IS NULL THEN
        RETURN statement;
    END IF;
    RAISE NOTICE 'psp: the statement runs without CONCURRENTLY, and writers of the table wait for it';
    RETURN parts[1] || parts[2];
END $$;

-- A line for each statement of the message: kind, place, bytes.
CREATE FUNCTION psp.statements_of_message(running psp.running_ddl, message text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF running.statements IS NULL THEN
        running.statements := psp.ask_about('statements', convert_to(message, 'UTF8'));
        PERFORM psp.note_running_ddl(running);
    END IF;
    RETURN running.statements;
END $$;

-- Whether a statement of this text has this tag: the tag's words are in it, in their order, the first one at its beginning.
CREATE FUNCTION psp.is_statement_of(tag text, statement text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT coalesce(statement ~* ('^\s*' || replace(tag, ' ', '\M.*\m') || '\M'), false)
$$;

-- The part of a message between two places, in bytes.
CREATE FUNCTION psp.part_of_message(message text, first text, behind text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT convert_from(substring(convert_to(message, 'UTF8') FROM first::integer + 1 FOR behind::integer - first::integer), 'UTF8')
$$;

-- SELECT … INTO as CREATE TABLE … AS: a function cannot run the former. place: of the statement and of its clause, and whether that says UNLOGGED.
-- Null: it has no such clause.
CREATE FUNCTION psp.create_table_as(message text, place text[]) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT CASE place[7] WHEN 'unlogged' THEN 'CREATE UNLOGGED TABLE ' ELSE 'CREATE TABLE ' END
           || psp.part_of_message(message, place[5], place[6]) || ' AS '
           || psp.part_of_message(message, place[2], place[4])
           || psp.part_of_message(message, place[6], (place[2]::integer + place[3]::integer)::text)
$$;

-- Whether a literal without E has a backslash, which is a letter under standard_conforming_strings and begins an escape without it. Without one, a
-- message has the same parts under both.
CREATE FUNCTION psp.has_plain_backslash(message text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
DECLARE
    opening CONSTANT text := '''|"|--|/\*|\$(?:[[:alpha:]_][[:alnum:]_]*)?\$';
    rest   text := message;
    before text;
    token  text;
    body   text;
    at     integer;
BEGIN
    WHILE position('\' IN rest) > 0 LOOP
        at := regexp_instr(rest, opening);
        EXIT WHEN at = 0;
        before := right(left(rest, at - 1), 2);
        rest := substr(rest, at);
        token := (regexp_match(rest, '^(?:' || opening || ')'))[1];
        rest := substr(rest, length(token) + 1);
        IF token LIKE '$%' AND before ~ '[[:alnum:]_$]$' THEN  -- of a name
            CONTINUE;
        ELSIF token LIKE '$%' THEN
            body := left(rest, position(token IN rest) + length(token) - 1);
        ELSE
            body := substring(rest FROM CASE token WHEN '"' THEN '^(?:[^"]|"")*"?'
                                                   WHEN '--' THEN '^[^\n\r]*'
                                                   WHEN '/*' THEN '^(?:[^*]|\*(?!/))*(?:\*/)?'
                                                   ELSE CASE WHEN before ~ '(?:^|[^[:alnum:]_$])[eE]$' THEN '^(?:[^''\\]|\\.|'''')*''?' ELSE '^(?:[^'']|'''')*''?' END END);
        END IF;
        IF token = '''' AND before !~ '(?:^|[^[:alnum:]_$])[eE]$' AND position('\' IN body) > 0
           OR token = '/*' AND position('/*' IN body) > 0 THEN  -- a comment in a comment is not understood
            RETURN true;
        END IF;
        rest := substr(rest, length(body) + 1);
    END LOOP;
    RETURN false;
END $function$;

-- Whether a statement surely leaves standard_conforming_strings as it is. Others may call functions that set it, or end what SET LOCAL has set.
CREATE FUNCTION psp.leaves_strings(statement text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT statement !~* 'standard_conforming_strings|\mu&"'
           AND (statement ~* '^(begin|start|savepoint|release|set|comment|grant|revoke|security|drop)\M'
                OR statement ~* '^alter\M' AND statement !~* '^alter\s+(table|domain|foreign)\M.*\m(default|using|type|check|generated|validate|attach)\M'
                OR statement ~* '^create\M' AND regexp_replace(statement, '\mgenerated\s+(always|by\s+default)\s+as\M', '', 'gi') !~* '^create\s.*\m(table|materialized)\M.*\mas\M'
                   AND statement !~* '^create\s+(or\s+replace\s+)?(trusted|procedural|language|extension)\M')
$$;

-- PostgreSQL takes a whole message apart before it runs any part of it. SQL does not know under which setting: a statement before this one, which
-- begins at `place`, may have changed it. A backslash before a quotation mark leaves open where statements end. lines: psp.statements_of_message.
CREATE FUNCTION psp.check_strings_of_message(message text, lines text, place integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF position(E'\\' IN message) > 0 AND psp.has_plain_backslash(message)
       AND (EXISTS (SELECT FROM string_to_table(lines, E'\n') l(line) CROSS JOIN LATERAL string_to_array(l.line, ' ') p
                     WHERE p[2]::integer < place
                       AND NOT psp.leaves_strings(psp.part_of_message(message, p[2], (p[2]::integer + p[3]::integer)::text)))
            OR position(E'\\''' IN message) > 0
               AND message ~* E'\\m(select|values|call|do|execute|insert|update|delete|merge|with|copy|fetch|commit|end|rollback|abort|reset|standard_conforming_strings)\\M') THEN
        PERFORM psp.refuse_plain_ddl('the text of a statement is not known',
                                     'It is in a message that may change standard_conforming_strings before it, and has a backslash in a literal: what that means depends on the setting before.',
                                     'Send the statement in a message of its own, or write such a literal as E''…'', with two backslashes for one.');
    END IF;
END $$;

-- Where a statement that is one of several in a message stands: a line of psp.statements_of_message.
CREATE FUNCTION psp.place_in_message(running psp.running_ddl, message text) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lines text;
    place text[];
BEGIN
    IF running.text IS NULL AND current_setting('standard_conforming_strings') = 'off' THEN
        PERFORM psp.refuse_plain_ddl('the text of a statement is not known',
                                     'It is in a message with other statements, and standard_conforming_strings is off.');
    END IF;
    lines := psp.statements_of_message(running, message);
    IF running.text IS NULL AND lines ~ '(^|\n)rollback ' THEN  -- it undoes the count
        PERFORM psp.refuse_plain_ddl('the text of a statement is not known',
                                     'It is in a message with ROLLBACK, PREPARE TRANSACTION or RESET ALL.');
    END IF;
    SELECT string_to_array(l.line, ' ') INTO place
      FROM string_to_table(lines, E'\n') WITH ORDINALITY l(line, at)
     WHERE l.line LIKE 'ddl %' ORDER BY l.at OFFSET CASE WHEN running.text IS NULL THEN running.n - 1 ELSE 0 END LIMIT 1;
    IF running.text IS NULL AND NOT psp.uses_module() THEN
        PERFORM psp.check_strings_of_message(message, lines, place[2]::integer);
    END IF;
    RETURN place;
END $$;

CREATE FUNCTION psp.text_of_ddl(running psp.running_ddl) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    message CONSTANT text := coalesce(running.text, current_query());
    found   text := message;
    place   text[];
BEGIN
    IF running.tag = 'SELECT INTO' OR running.text IS NULL AND psp.may_have_several(message) THEN
        place := psp.place_in_message(running, message);
        found := CASE WHEN running.tag = 'SELECT INTO' THEN psp.create_table_as(message, place)
                      ELSE psp.part_of_message(message, place[2], (place[2]::integer + place[3]::integer)::text) END;
    ELSIF running.text IS NOT NULL AND (psp.may_have_several(running.text) OR running.text ~ E'"\n') AND NOT psp.uses_module()
          AND psp.ask_about('statements', convert_to(running.text, 'UTF8')) !~ '^ddl [^\n]*$' THEN
        PERFORM psp.refuse_plain_ddl(format('the text of this %s is not known', running.tag), 'EXECUTE runs it with other statements.');
    END IF;
    IF NOT psp.is_statement_of(CASE running.tag WHEN 'SELECT INTO' THEN 'CREATE TABLE AS' ELSE running.tag END, found) THEN
        PERFORM psp.refuse_plain_ddl(format('the text of this %s is not known', running.tag), 'It is not in the client''s message.');
    END IF;
    RETURN found;
END $$;

-- ---- what the server module knows (capture_module/statement.c) ----------------------------------------------------------------------

-- The part of the client's message that is the statement which begins, without comments around it. Null: it is not known.
CREATE FUNCTION psp.text_of_message() RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN psp.text_in_message();
EXCEPTION WHEN syntax_error_or_access_rule_violation OR data_exception OR feature_not_supported THEN  -- it cannot be read under the settings of now
    RETURN NULL;
END $$;

-- Whether PostgreSQL would read a text, under these settings, as the statement that begins. It has read that one before: with its whole message, when it
-- was prepared, or when a function ran it first. SQL cannot know, and says yes.
CREATE FUNCTION psp.reads_the_same(statement text, settings jsonb) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = error SET escape_string_warning = off AS $$
BEGIN
    IF NOT psp.uses_module() THEN
        RETURN true;
    END IF;
    RETURN (SELECT psp.reads_as_statement(statement, psp.role_of_statement(), array_agg(s.name), array_agg(settings ->> s.name))
              FROM psp.names_of_settings() s(name));
EXCEPTION WHEN syntax_error_or_access_rule_violation OR data_exception OR feature_not_supported THEN
    RETURN false;
END $$;

CREATE FUNCTION psp.check_reads_same(running psp.running_ddl) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF running.reads_same IS NOT TRUE THEN
        PERFORM psp.refuse_plain_ddl(format('the text of this %s does not say what runs here', running.tag),
                                     'PostgreSQL has read it under other settings, when its message began or when it was prepared; or an EXECUTE runs it with other statements.',
                                     'Set standard_conforming_strings, datestyle and the like in messages of their own, and prepare statements afterwards. EXECUTE one statement.');
    END IF;
END $$;

-- The same; null where it would be refused. Where only a hold asks, a statement that goes nowhere (of a temporary object) must pass.
CREATE FUNCTION psp.text_if_known(running psp.running_ddl) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN psp.text_of_ddl(running);
EXCEPTION WHEN feature_not_supported OR connection_failure OR syntax_error OR program_limit_exceeded THEN
    RETURN NULL;
END $$;
