-- CREATE TABLE AS, CREATE MATERIALIZED VIEW, its indexes and domains, and REFRESH where they arrive. There the query finds other rows than it found where the
-- statement ran first, and may fail over them: nobody's rows may stop the stream. docs/schema-changes.md.

-- A text without comments, and without semicolons around it, for a look at its words: what looks like one in a literal with $ or \ goes, too.
CREATE FUNCTION psp.without_comments(statement text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
BEGIN
    RETURN btrim(regexp_replace(statement, concat('(''(?:[^'']|'''')*''|"(?:[^"]|"")*")|',
                                                  '--[^\n\r]*|/\*(?:[^*/]|/(?!\*)|\*(?!/))*\*/'), '\1 ', 'g'), E'; \t\n\r\f');
END $$;

-- What a text does with rows of its query: 'table', 'view' (or an unlogged table, which is local, too), 'refresh' or 'index', and the name of
-- that relation, of which an index may be made. Null: none of these, or it may be several statements.
CREATE FUNCTION psp.query_in(statement text, OUT kind text, OUT name text) RETURNS record
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    bare  CONSTANT text := psp.without_comments(statement);
    named CONSTANT text := '(NAME(?:_\._NAME)?)';
    made  CONSTANT text := concat('(?: IF NOT EXISTS)? ', named, '(?:_\([^()]*\))?(?:_USING NAME)?(?:_WITH_\([^()]*\))?',
                                  '(?:_TABLESPACE NAME)?_AS\M.*');
    parts text[];
BEGIN
    IF position(';' IN regexp_replace(bare, '''[^'']*''|"[^"]*"', '', 'g')) > 0 THEN
        RETURN;
    END IF;
    parts := coalesce(regexp_match(bare, psp.statement_pattern('CREATE (TABLE)' || made), 'i'),
                      regexp_match(bare, psp.statement_pattern('CREATE (UNLOGGED) TABLE' || made), 'i'),
                      regexp_match(bare, psp.statement_pattern('CREATE MATERIALIZED (VIEW)' || made), 'i'),
                      regexp_match(bare, psp.statement_pattern('(REFRESH) MATERIALIZED VIEW(?: CONCURRENTLY)? ' || named || '(?: .*)?'), 'i'),
                      (SELECT ARRAY['index', i.relation] FROM psp.index_in(bare) i WHERE i.relation IS NOT NULL));
    kind := CASE lower(parts[1]) WHEN 'unlogged' THEN 'view' ELSE lower(parts[1]) END;
    name := parts[2];
END $$;

-- The texts of which one is the statement WITH NO DATA; the others are errors of syntax. (What ends the text may be a comment.)
CREATE FUNCTION psp.without_data(statement text) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
BEGIN
    RETURN ARRAY[rtrim(statement, E'; \t\r\n\f') || E'\nWITH NO DATA',
                 regexp_replace(psp.bare_statement(statement), '\mwith\s+data$', '', 'i') || E'\nWITH NO DATA'];
END $$;

-- Runs a statement by this call, WITH NO DATA if its text lets that be seen. Called under the statement's settings, like the two below.
CREATE FUNCTION psp.run_without_data(call text, statement text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    variant pg_catalog.text;
BEGIN
    FOREACH variant IN ARRAY psp.without_data(statement) LOOP
        BEGIN
            EXECUTE call USING variant;
            RETURN;
        EXCEPTION WHEN syntax_error THEN
            NULL;
        END;
    END LOOP;
    EXECUTE call USING statement;
END $$;

-- A view that is not what its statement should have made of it: the server's log tells it, and psp.status until it is refreshed.
CREATE FUNCTION psp.note_unfilled(made oid, problem text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE WARNING USING MESSAGE = format('psp: %s has no rows of this schema change: %s', made::regclass, problem);
    DELETE FROM psp.unfilled_views u WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = u.relation);
    INSERT INTO psp.unfilled_views
    SELECT c.oid, problem FROM pg_class c WHERE c.oid = made AND c.relkind = 'm'
        ON CONFLICT (relation) DO UPDATE SET error = EXCLUDED.error;
END $$;

CREATE FUNCTION psp.is_materialized_view(relation oid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pg_class c WHERE (c.oid, c.relkind) = (relation, 'm'));
END $$;

-- REFRESH CONCURRENTLY cannot fill a view that has never had rows: here it may have none.
CREATE FUNCTION psp.refresh_to_run(statement text, view oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
BEGIN
    RETURN (SELECT CASE WHEN c.relispopulated THEN statement ELSE regexp_replace(statement, '\mconcurrently\M', '', 'i') END
              FROM pg_class c WHERE c.oid = view);
END $$;

-- An index that the rows of a view do not let be made: it gets made without them.
CREATE FUNCTION psp.make_index_of_empty_view(call text, statement text, view oid) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE call USING pg_catalog.format('REFRESH MATERIALIZED VIEW %s WITH NO DATA', view::pg_catalog.regclass);
    EXECUTE call USING statement;
END $$;

-- Whether an error says nothing about the statement: of a lock, a full disk or the like. Then it is tried again.
CREATE FUNCTION psp.may_pass(code text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT code ~ '^(40|53|55P03|57|58|XX)'
$$;

-- Empties the materialized views with a domain that a statement names: their rows here have not let it change.
CREATE FUNCTION psp.empty_views_of_domains(statement text, problem text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    words CONSTANT text[] := psp.words_of(statement);
    views CONSTANT regclass[] := ARRAY(
        WITH RECURSIVE domains AS (
            SELECT t.oid FROM pg_type t WHERE t.typtype = 'd' AND psp.is_named(t.typname, statement, words)
            UNION SELECT t.oid FROM domains d JOIN pg_type t ON t.typbasetype = d.oid)
        SELECT DISTINCT c.oid FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
         WHERE c.relkind = 'm' AND c.relispopulated AND a.atttypid IN (SELECT d.oid FROM domains d) ORDER BY c.oid);
    view regclass;
BEGIN
    FOREACH view IN ARRAY views LOOP
        EXECUTE format('REFRESH MATERIALIZED VIEW %s WITH NO DATA', view);
        PERFORM psp.note_unfilled(view, problem);
    END LOOP;
    RETURN views <> '{}';
END $$;

-- Runs a statement that makes no use of rows, but for those that PostgreSQL checks when a domain changes.
CREATE FUNCTION psp.run_with_checks(call text, statement text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF statement OPERATOR(pg_catalog.!~*) 'domain' THEN
        EXECUTE call USING statement;
        RETURN;
    END IF;
    BEGIN
        EXECUTE call USING statement;
    EXCEPTION WHEN check_violation OR not_null_violation THEN
        IF NOT psp.empty_views_of_domains(statement, SQLERRM) THEN
            RAISE;
        END IF;
        EXECUTE call USING statement;
    END;
END $$;

-- Runs a statement that has arrived. The rows of CREATE TABLE AS come with the stream. A view that cannot be filled stays as it is, or
-- without rows: the rows here may be the cause.
CREATE FUNCTION psp.run_where_it_arrives(call text, statement text, role name, settings jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    query CONSTANT pg_catalog.record := psp.query_in(statement);
    view  pg_catalog.oid;
BEGIN
    IF query.kind IS NULL THEN
        PERFORM psp.run_with_checks(call, statement);
        RETURN;
    ELSIF query.kind OPERATOR(pg_catalog.=) 'table' THEN
        PERFORM psp.run_without_data(call, statement);
        RETURN;
    END IF;
    view := psp.relation_named(query.name, role, settings);
    IF query.kind OPERATOR(pg_catalog.=) 'index' AND NOT psp.is_materialized_view(view) THEN
        EXECUTE call USING statement;
        RETURN;
    END IF;
    BEGIN
        EXECUTE call USING CASE WHEN query.kind OPERATOR(pg_catalog.=) 'refresh' AND view IS NOT NULL
                                THEN psp.refresh_to_run(statement, view) ELSE statement END;
    EXCEPTION WHEN OTHERS THEN
        IF psp.may_pass(SQLSTATE) OR query.kind OPERATOR(pg_catalog.=) 'refresh' AND view IS NULL THEN
            RAISE;
        ELSIF query.kind OPERATOR(pg_catalog.=) 'view' THEN
            PERFORM psp.run_without_data(call, statement);
        ELSIF query.kind OPERATOR(pg_catalog.=) 'index' THEN
            PERFORM psp.make_index_of_empty_view(call, statement, view);
        END IF;
        PERFORM psp.note_unfilled(psp.relation_named(query.name, role, settings), SQLERRM);
    END;
END $$;
