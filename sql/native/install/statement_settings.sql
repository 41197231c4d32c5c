-- The settings under which a statement of a schema change runs, here and where it arrives (schema_history.sql).

-- The settings that the meaning of a statement depends on.
CREATE FUNCTION psp.names_of_settings() RETURNS SETOF text
LANGUAGE sql IMMUTABLE AS $$
    SELECT pg_catalog.unnest(ARRAY['search_path', 'datestyle', 'intervalstyle', 'timezone', 'standard_conforming_strings',
                                   'check_function_bodies', 'xmloption', 'array_nulls', 'default_toast_compression',
                                   'row_security', 'transform_null_equals', 'lc_monetary', 'lc_numeric', 'lc_time',
                                   'bytea_output', 'extra_float_digits', 'default_text_search_config', 'timezone_abbreviations', 'xmlbinary', 'backslash_quote'])
$$;

-- The schemas of the search_path that are there, and that the role may use. The session's own one for temporary objects is nowhere else. (Without a SET
-- clause: it is the caller's path.)
CREATE FUNCTION psp.schemas_in_path() RETURNS name[]
LANGUAGE sql STABLE AS $$
    SELECT pg_catalog.array_remove(pg_catalog.current_schemas(false),
                                   (SELECT n.nspname FROM pg_catalog.pg_namespace n WHERE n.oid OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()))
$$;

-- Their values in this session.
CREATE FUNCTION psp.statement_settings() RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT pg_catalog.jsonb_object_agg(s.name, pg_catalog.current_setting(s.name))
           OPERATOR(pg_catalog.||) pg_catalog.jsonb_build_object('schemas', psp.schemas_in_path())
      FROM psp.names_of_settings() s(name)
$$;

-- ---- search_path ------------------------------------------------------------------------------------------------------------------

-- A schema of the search_path may be at one server only, or be one that the statement's role can use at one server only: names would mean
-- something else, without any error.

-- What the meaning of an ordinary statement depends on, before it: it may make or drop schemas, and what it calls may change settings. With the rights
-- and the settings of its caller: no SET clause, and not SECURITY DEFINER.
CREATE FUNCTION psp.note_settings() RETURNS event_trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF psp.makes_temporary(pg_catalog.current_query()) IS NOT TRUE THEN
        PERFORM pg_catalog.set_config('psp.settings', psp.statement_settings()::pg_catalog.text, false);
    END IF;
END $$;

-- What psp.note_settings has noted.
CREATE FUNCTION psp.noted_settings() RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT nullif(current_setting('psp.settings', true), '')::jsonb
$$;

-- As settings in which psp.relation_named finds names.
CREATE FUNCTION psp.path_of_schemas(settings jsonb) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
    SELECT jsonb_build_object('search_path', coalesce((SELECT string_agg(quote_ident(s.name), ', ' ORDER BY s.n)
                                                         FROM jsonb_array_elements_text(settings -> 'schemas') WITH ORDINALITY s(name, n)), ''))
$$;

-- The settings of a statement that has ended: those before it. (Who forges what his session has noted cannot add others.)
CREATE FUNCTION psp.settings_before(settings jsonb, noted jsonb) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT settings || coalesce(jsonb_object_agg(n.key, n.value) FILTER (WHERE n.key IN ('schemas', 'custom') OR s.name IS NOT NULL AND jsonb_typeof(n.value) = 'string'), '{}')
      FROM jsonb_each(noted) n LEFT JOIN psp.names_of_settings() s(name) ON s.name = n.key
$$;

-- The schemas that a text makes at its beginning, if they are not there.
CREATE FUNCTION psp.schemas_to_make(statement text) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    one   CONSTANT text := btrim(psp.statement_pattern('CREATE SCHEMA IF NOT EXISTS (NAME)(?: AUTHORIZATION NAME)?_(?:;_|$)'), '^$');
    rest  text := psp.without_comments(statement);
    name  text;
    found text[] := '{}';
BEGIN
    LOOP
        name := (regexp_match(rest, '^' || one, 'i'))[1];
        EXIT WHEN name IS NULL;
        found := found || psp.bare_name(name)::text;
        rest := regexp_replace(rest, '^' || one, '', 'i');
    END LOOP;
    RETURN found;
END $$;

-- The path of a statement of `role`, without schemas that are here, but were none of `schemas` where it ran first. One that was nowhere stays: the
-- statement may make it. So do those that it makes in any case: `made`.
CREATE FUNCTION psp.path_to_take(path text, schemas jsonb, role name, made text[]) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found record;
    kept  text[] := '{}';
    same  boolean := true;
BEGIN
    FOR found IN SELECT p.name, schemas ? p.name AND (n.oid IS NOT NULL OR p.name <> ALL (made)) AS is_known, p.name = ANY (made) AS is_made,
                        n.oid IS NOT NULL  -- there may be no such role here
                        AND coalesce(has_schema_privilege(to_regrole(quote_ident(role)), n.oid, 'USAGE'), true) AS is_usable
                   FROM psp.names_in_path(path, role) p LEFT JOIN pg_namespace n ON n.nspname = p.name ORDER BY p.n LOOP
        IF found.is_known AND NOT found.is_usable THEN
            RAISE EXCEPTION USING
                ERRCODE = 'object_not_in_prerequisite_state',
                MESSAGE = format('psp: schema %I, in the search_path of the schema change, is not here, or role %I may not use it',
                                 found.name, role),
                DETAIL = 'Names could stand for something else here than where the statement ran first.',
                HINT = format('CREATE SCHEMA %1$I; GRANT USAGE ON SCHEMA %1$I TO %2$I. Then the schema change is tried again.', found.name, role);
        ELSIF found.is_usable AND NOT found.is_known AND NOT found.is_made THEN
            same := false;
        ELSE
            kept := kept || quote_ident(found.name);
        END IF;
    END LOOP;
    RETURN CASE WHEN same THEN path ELSE array_to_string(kept, ', ') END;
END $$;

-- The values that a statement of `role` takes where it runs. pg_temp comes last: it would be first, with what others may have left in
-- the session.
CREATE FUNCTION psp.settings_to_take(settings jsonb, role name, statement text DEFAULT '') RETURNS TABLE (name text, value text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.name, CASE s.name WHEN 'search_path'
                               THEN concat_ws(', ', nullif(psp.path_to_take(settings ->> s.name, settings -> 'schemas', role, psp.schemas_to_make(statement)), ''), 'pg_temp')
                               ELSE settings ->> s.name END
      FROM psp.names_of_settings() s(name)
$$;

-- ---- settings that applications have made up ----------------------------------------------------------------------------------------

-- A setting that an application has made up: `SET app.tenant = …`. Neither psp's, nor one that the server or an extension knows.
CREATE FUNCTION psp.is_custom_setting(name text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
BEGIN
    RETURN name ~ '^[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)+$' AND name !~* '^psp\.'
           AND NOT EXISTS (SELECT FROM pg_settings s WHERE lower(s.name) = lower(is_custom_setting.name));
END $$;

-- The values of those that a text names in quotes, or a function whose name is in it. PostgreSQL lists them nowhere.
CREATE FUNCTION psp.custom_settings(statement text) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    words  CONSTANT text[] := psp.words_of(statement);
    texts  CONSTANT text := concat_ws(E'\n', statement, (SELECT string_agg(p.prosrc, E'\n') FROM pg_proc p
                                                         WHERE p.oid >= 16384 AND p.pronamespace <> 'psp'::regnamespace
                                                           AND psp.is_named(p.proname, statement, words)));
    name   text;
    values jsonb := '{}';
BEGIN
    FOR name IN SELECT DISTINCT m.found[1] FROM regexp_matches(texts, '''([A-Za-z_][\w$]*(?:\.[A-Za-z_][\w$]*)+)''', 'g') m(found) LOOP
        IF psp.is_custom_setting(name) AND current_setting(name, true) IS NOT NULL THEN
            values := values || jsonb_build_object(name, current_setting(name, true));
        END IF;
    END LOOP;
    RETURN CASE values WHEN '{}' THEN '{}' ELSE jsonb_build_object('custom', values) END;
EXCEPTION WHEN insufficient_privilege THEN  -- to read what only a superuser may
    RETURN '{}';
END $$;

-- Sets them where a statement arrives, by the call that runs it: with the rights of the statement's role.
CREATE FUNCTION psp.take_custom_settings(call text, settings jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    taken CONSTANT pg_catalog.text := psp.custom_settings_to_take(settings);
BEGIN
    IF taken IS NOT NULL THEN
        EXECUTE call USING taken;
    END IF;
END $$;

CREATE FUNCTION psp.custom_settings_to_take(settings jsonb) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
BEGIN
    RETURN (SELECT 'SELECT ' || string_agg(format('pg_catalog.set_config(%L, %L, true)', c.key, c.value), ', ')
              FROM jsonb_each_text(settings -> 'custom') c WHERE psp.is_custom_setting(c.key));
END $$;
