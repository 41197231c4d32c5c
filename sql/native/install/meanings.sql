-- What the text of a schema change means at one moment or in one session only. PostgreSQL computes 'now' in a literal of a date or time, and the bounds of
-- a partition, once: when it reads the statement. SESSION_USER and SET … FROM CURRENT are values of the session. Each server would have
-- another value, in silence, so such a text is refused where it runs first. docs/decisions/72.

-- A text without comments, literals and bodies of functions.
CREATE FUNCTION psp.without_literals(statement text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT regexp_replace(psp.without_comments(regexp_replace(statement, '\$(\w*?)\$.*?\$\1\$', '''''', 'g')), '''(?:[^'']|'''')*''', '''''', 'g')
$$;

-- Whether a row of a catalog is new since this transaction began.
CREATE FUNCTION psp.is_new(row_xmin xid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT age(row_xmin) <= age(pg_current_xact_id()::xid)
$$;

-- Whether an expression of the catalog has a constant that may be a date or time of these days. Of times without a date, ranges and arrays each one may
-- be. (A constant's bytes, the lowest one first.)
CREATE FUNCTION psp.has_time_of_these_days(expression text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT EXISTS (
        SELECT FROM regexp_matches(expression, '\{CONST :consttype (\d+) [^{}\[]*\[ ([-0-9 ]+) \]', 'g') m(found),
               LATERAL (SELECT bit_or((b.byte::bigint & 255) << (8 * (b.n - 1)::integer)) FROM string_to_table(m.found[2], ' ') WITH ORDINALITY b(byte, n)
                         WHERE b.n <= 8) v(number)
         WHERE CASE WHEN m.found[1]::oid = 'date'::regtype THEN abs(v.number - (current_date - '2000-01-01'::date)) <= 3
                    WHEN m.found[1]::oid IN ('timestamp'::regtype, 'timestamptz'::regtype)
                    THEN abs(v.number / 1e6 - extract(epoch FROM now() - '2000-01-01 00:00Z'::timestamptz)) <= 3 * 86400
                    ELSE m.found[1]::oid = ANY ('{time,timetz,tsrange,tstzrange,daterange,tsmultirange,tstzmultirange,datemultirange,
                                                  date[],timestamp[],timestamptz[],time[],timetz[]}'::regtype[]::oid[]) END)
$$;

-- Whether an expression that this transaction has put into the catalog has one.
CREATE FUNCTION psp.has_made_time_of_these_days() RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one   record;
    found boolean;
BEGIN
    FOR one IN SELECT a.attrelid::regclass AS catalog, a.attname AS expression FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
                WHERE a.atttypid = 'pg_node_tree'::regtype AND c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind = 'r' LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s c WHERE psp.is_new(c.xmin) AND psp.has_time_of_these_days(c.%I::text))', one.catalog, one.expression) INTO found;
        EXIT WHEN found;
    END LOOP;
    RETURN found;
END $$;

-- Whether the bounds of a partition are computed from what is not the same everywhere: by a function that does not say it is, or by a word for the session or the time.
CREATE FUNCTION psp.has_computed_bound(bare text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT EXISTS (
        SELECT FROM regexp_matches(bare, '\mfor\s+values\s+(?:in|from)\M([^;]*)', 'gi') f(found),
               LATERAL (SELECT regexp_replace(f.found[1], '\mpartition\s+by\M.*', '', 'i')) b(bound)
         WHERE b.bound ~* '\m(?:current_(?:date|time|timestamp|user|role|schema|catalog)|localtime|localtimestamp|session_user|user)\M'
            OR EXISTS (SELECT FROM regexp_matches(b.bound, '([\w$]+)"?\s*\(', 'g') w(word) JOIN pg_proc p ON p.proname = lower(w.word[1]) AND p.provolatile <> 'i'))
       AND EXISTS (SELECT FROM pg_class c WHERE c.relpartbound IS NOT NULL AND psp.is_new(c.xmin))
$$;

-- Refuses such a text of a statement that has run here.
CREATE FUNCTION psp.check_meaning(statement text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    bare    CONSTANT text := psp.without_literals(statement);
    setting text;
BEGIN
    IF EXISTS (SELECT FROM regexp_matches(statement, '''((?:[^'']|'''')*)''', 'g') m(literal) WHERE m.literal[1] ~* '\m(?:now|today|tomorrow|yesterday)\M')
       AND psp.has_made_time_of_these_days() THEN
        PERFORM psp.refuse_plain_ddl('a date or time that a literal such as ''now'' stands for is not supported',
                                     'PostgreSQL replaces it by the time of the moment at which a server reads the statement: it would be another one at each.',
                                     'now() or CURRENT_DATE is computed when it is used; or write the value itself.');
    ELSIF psp.has_computed_bound(bare) THEN
        PERFORM psp.refuse_plain_ddl('a partition whose bounds are computed is not supported',
                                     'PostgreSQL computes them when a server reads the statement: they would be other ones at each.',
                                     'Write the values, or let EXECUTE format(''… FROM (%L) TO (%L)'', …) in a DO block do it.');
    ELSIF bare ~* '\m(?:to|by|for|role|user|authorization)\s+(?:[\w$"]+\s*,\s*)*session_user\M' THEN
        PERFORM psp.refuse_plain_ddl('SESSION_USER as the name of a role is not supported', 'At other servers it would be the role of psp''s daemon.',
                                     'Name the role, or CURRENT_USER.');
    END IF;
    SELECT m.name[1] INTO setting FROM regexp_matches(bare, '\mset\s+"?([\w.]+)"?\s+from\s+current\M', 'gi') m(name)
     WHERE lower(m.name[1]) = 'search_path' OR lower(m.name[1]) NOT IN (SELECT s.name FROM psp.names_of_settings() s(name));
    IF FOUND THEN
        PERFORM psp.refuse_plain_ddl(format('SET %s FROM CURRENT is not supported', setting), 'Sessions at other servers have another value.',
                                     format('SET %s = …, with the value.', setting));
    END IF;
END $$;
