-- Temporary objects: statements that change nothing else stay in their session (plain_ddl.sql).

-- Whether an object of pg_event_trigger_ddl_commands() is or belongs to a temporary table.
CREATE FUNCTION psp.is_of_temporary_table(class oid, object oid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pg_class c
                    WHERE c.oid = coalesce(psp.relation_of(class, object), (SELECT p.polrelid FROM pg_policy p
                                                                             WHERE (class, p.oid) = ('pg_policy'::regclass, object)))
                      AND c.relnamespace = pg_my_temp_schema());
END $$;

-- Without the lists of schemas that functions get. With pg_temp at their end, as PostgreSQL's manual recommends for SECURITY DEFINER, they name no temporary
-- object: the session's that runs the function is meant.
CREATE FUNCTION psp.without_search_paths(statement text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    schema CONSTANT text := $r$(?:"[^"]*"|'[^']*'|[\w$]+)$r$;
BEGIN
    RETURN regexp_replace(statement, psp.with_gaps(concat('\mset search_path(?: )?(?:=|\mto\M)(?: )?', schema, '(?:(?: )?,(?: )?', schema, ')*(?!(?: )?[.])')),
                          'SET search_path', 'gi');
END $$;

-- A temporary object of this session whose name is in the text.
CREATE FUNCTION psp.temporary_name_in(statement text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    text  CONSTANT text := psp.without_search_paths(statement);
    words CONSTANT text[] := psp.words_of(text);
BEGIN
    RETURN (SELECT min(o.name)
              FROM (SELECT c.relname FROM pg_class c WHERE c.relnamespace = pg_my_temp_schema()
                    UNION ALL SELECT p.proname FROM pg_proc p WHERE p.pronamespace = pg_my_temp_schema()
                    UNION ALL SELECT t.typname FROM pg_type t WHERE t.typnamespace = pg_my_temp_schema() AND t.typrelid = 0
                    UNION ALL SELECT 'pg_temp') o(name)
             WHERE psp.is_named(o.name, text, words));
END $$;

-- Whether a text gives or takes rights on temporary tables only. Event triggers do not tell of what these are.
CREATE FUNCTION psp.is_grant_on_temporary(statement text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    one   CONSTANT text := 'NAME(?:_\._NAME)?';
    named CONSTANT text := (regexp_match(psp.without_comments(statement), psp.statement_pattern(
        concat('(?:GRANT|REVOKE) [^;]* ON(?: TABLE)? (', one, '(?:_,_', one, ')*) (?:TO|FROM) .*')), 'i'))[1];
BEGIN
    RETURN (SELECT bool_and(c.relnamespace IS NOT NULL AND c.relnamespace = pg_my_temp_schema())
              FROM regexp_matches(named, btrim(psp.statement_pattern(one), '^$'), 'g') m(found)
              LEFT JOIN pg_class c ON c.relname = psp.bare_name(m.found[1]));
END $$;
