-- What the text of a schema change means at one moment or in one session only. PostgreSQL computes 'now' in a literal of a date or time, and the bounds of
-- a partition, once: when it reads the statement. SESSION_USER and SET … FROM CURRENT are values of the session. Each server would have
-- another value, in silence, so such a text is refused where it runs first. docs/decisions/72.

-- The parts of a text, in their order: words, names in quotation marks, literals (also $…$), comments, and what is between them. (PostgreSQL takes the longest
-- match: so each $tag$ is a pattern of its own.)
CREATE FUNCTION psp.parts_of_text(statement text) RETURNS TABLE (n bigint, kind text, part text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
    SELECT p.n, CASE WHEN p.found[1] ~ '^(--|/\*.)' THEN 'comment' WHEN p.found[1] ~ '^([eEbBxXnN]?''|\$\w*\$)' THEN 'literal' ELSE 'text' END, p.found[1]
      FROM (SELECT string_agg(format('\$%1$s\$[^$]*(?:\$(?!%1$s\$)[^$]*)*\$%1$s\$|', t.tag), '') AS quoted
              FROM (SELECT DISTINCT m.found[1] FROM regexp_matches(statement, '\$([A-Za-z_]\w*|)\$', 'g') m(found)) t(tag)) q,
           regexp_matches(statement, coalesce(q.quoted, '')
               || $$[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n\r]*|/\*(?:[^*]|\*+[^*/])*\*+/|\w[\w$]*|[^\w'"$/-]+|.$$, 'g') WITH ORDINALITY p(found, n)
$function$;

-- Whether a date or time can begin with one of PostgreSQL's words for a moment of now: what it is made of now, in bytes, the lowest one first. Null: it cannot.
CREATE FUNCTION psp.bytes_of_moment(value text) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    made text[];
BEGIN
    SELECT array_agg((SELECT string_agg(lpad(to_hex((n.number >> (8 * b)) & 255), 2, '0'), '' ORDER BY b) FROM generate_series(0, n.bytes - 1) b))
      INTO made
      FROM (VALUES ((extract(epoch FROM value::timestamptz - '2000-01-01 00:00Z'::timestamptz) * 1000000)::bigint, 8),
                   ((extract(epoch FROM value::timestamp - '2000-01-01'::timestamp) * 1000000)::bigint, 8),
                   ((extract(epoch FROM CASE WHEN value ~* 'now' THEN value::time END) * 1000000)::bigint, 8),
                   ((value::date - '2000-01-01'::date)::bigint, 4)) n(number, bytes)
     WHERE n.number IS NOT NULL;
    RETURN made;
EXCEPTION WHEN data_exception OR feature_not_supported THEN
    RETURN NULL;
END $$;

-- The same, of a literal. It may be a range or an array.
CREATE FUNCTION psp.moments_of_literal(literal text) RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $function$
    SELECT array_agg(DISTINCT b.bytes)
      FROM regexp_split_to_table(regexp_replace(literal, '^\$\w*\$|\$\w*\$$|^[eE]?''|''$', '', 'g'), '[][(){},"]+') v(value),
           unnest(psp.bytes_of_moment(v.value)) b(bytes)
     WHERE v.value ~* '\m(?:now|today|tomorrow|yesterday)\M' AND length(v.value) < 100
$function$;

-- Whether this transaction has made a row of a catalog. (xmin may be a subtransaction's.)
CREATE FUNCTION psp.is_new(row_xmin xid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own   CONSTANT xid8 := pg_current_xact_id();
    later CONSTANT bigint := age(own::xid)::bigint - age(row_xmin);
BEGIN
    RETURN later >= 0 AND pg_xact_status((own::text::bigint + later)::text::xid8) = 'in progress';
END $$;

-- Whether an expression of the catalog has one of these moments as a constant, or in one that is a range or an array.
CREATE FUNCTION psp.has_moment(expression text, moments text[]) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT EXISTS (
        SELECT FROM regexp_matches(expression, '\{CONST :consttype (\d+) [^{}\[]*\[ ([-0-9 ]+) \]', 'g') m(found)
          JOIN pg_type t ON t.oid = m.found[1]::oid AND t.typcategory IN ('D', 'R', 'A')
         CROSS JOIN LATERAL (SELECT string_agg(lpad(to_hex(b.byte::integer & 255), 2, '0'), '' ORDER BY b.n)
                               FROM string_to_table(m.found[2], ' ') WITH ORDINALITY b(byte, n)) v(bytes)
         WHERE EXISTS (SELECT FROM unnest(moments) o(moment) WHERE position(o.moment IN v.bytes) > 0))
$$;

-- Whether this transaction has put such an expression into the catalog. (Bounds of partitions: psp.has_computed_bound.)
CREATE FUNCTION psp.has_made_moment(moments text[]) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one   record;
    found boolean := false;
BEGIN
    FOR one IN SELECT a.attrelid::regclass AS catalog, a.attname AS expression FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
                WHERE a.atttypid = 'pg_node_tree'::regtype AND a.attname <> 'relpartbound'
                  AND c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind = 'r' AND moments IS NOT NULL LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s c WHERE c.%I IS NOT NULL AND psp.is_new(c.xmin) AND psp.has_moment(c.%2$I::text, $1))',
                       one.catalog, one.expression) INTO found USING moments;
        EXIT WHEN found;
    END LOOP;
    RETURN found;
END $$;

-- Whether a function of a bound may have another result elsewhere. Those that are STABLE for the sake of settings do not: settings go along. A name that PostgreSQL
-- has is PostgreSQL's; types have their number of digits in parentheses.
CREATE FUNCTION psp.is_computed_by(name text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT name <> ALL ('{to_date,to_timestamp,to_char,to_number,make_timestamptz,date_trunc,date_part,extract,timezone,concat,concat_ws,format,
                          length,numeric,date,time,timetz,timestamp,timestamptz,interval}'::text[])
           AND EXISTS (SELECT FROM pg_proc p WHERE p.proname = name AND p.provolatile <> 'i'
                          AND (p.pronamespace = 'pg_catalog'::regnamespace
                               OR NOT EXISTS (SELECT FROM pg_proc o WHERE o.proname = name AND o.pronamespace = 'pg_catalog'::regnamespace)))
$$;

-- Whether bounds of a partition are computed from what is not the same everywhere: by such a function, or by a word for the session or the time. bare: a text
-- without comments, and a moment in place of each literal that may be one.
CREATE FUNCTION psp.has_computed_bound(bare text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT EXISTS (
        SELECT FROM regexp_matches(bare, '\mfor\s+values\s+(?:in|from)\M([^;]*)', 'gi') f(found),
               LATERAL (SELECT regexp_replace(f.found[1], '\m(?:partition\s+by|create)\M.*', '', 'i')) b(bound)
         WHERE b.bound ~* '\m(?:current_(?:date|time|timestamp|user|role|schema|catalog)|localtime|localtimestamp|session_user|user)\M|''now'''
            OR EXISTS (SELECT FROM regexp_matches(b.bound, '([\w$]+)"?\s*\(', 'g') w(word) WHERE psp.is_computed_by(lower(w.word[1]))))
$$;

-- Whether a statement names SESSION_USER as a role: a GRANT or REVOKE anywhere, others behind certain words. In an expression it is computed when it is used.
CREATE FUNCTION psp.names_session_user(bare text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT EXISTS (
        SELECT FROM string_to_table(bare, ';') s(statement)
         WHERE s.statement ~* '^\s*(?:grant|revoke|alter\s+default\s+privileges)\M.*\msession_user\M'
            OR s.statement ~* ('\m(?:to|owned\s+by|mapping\s+(?:if\s+(?:not\s+)?exists\s+)?for|role|user|authorization)\s+'
                               '(?:(?:[\w$]+|"(?:[^"]|"")*")\s*,\s*)*session_user\M'))
$$;

-- Refuses such a text of a statement that has run here, in this time zone.
CREATE FUNCTION psp.check_meaning(statement text, zone text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET timezone = 'UTC' AS $$
DECLARE
    bare    text;
    moments text[];
    setting text;
BEGIN
    IF statement !~* '\m(?:now|today|tomorrow|yesterday|session_user|current)\M|\mvalues\M' THEN
        RETURN;
    END IF;
    PERFORM set_config('timezone', zone, true);
    SELECT string_agg(CASE WHEN p.kind = 'text' THEN p.part WHEN p.kind = 'comment' THEN ' ' WHEN m.bytes IS NULL THEN '''''' ELSE '''now''' END, '' ORDER BY p.n)
      INTO bare
      FROM psp.parts_of_text(statement) p,
           LATERAL (SELECT CASE WHEN p.kind = 'literal' AND p.part ~* '\m(?:now|today|tomorrow|yesterday)\M' THEN psp.moments_of_literal(p.part) END) m(bytes);
    IF position('''now''' IN bare) > 0 THEN
        SELECT array_agg(DISTINCT b.bytes) INTO moments
          FROM psp.parts_of_text(statement) p, unnest(psp.moments_of_literal(p.part)) b(bytes) WHERE p.kind = 'literal';
    END IF;
    IF psp.has_computed_bound(bare) THEN
        PERFORM psp.refuse_plain_ddl('a partition whose bounds are computed is not supported',
                                     'PostgreSQL computes them when a server reads the statement: they would be other ones at each.',
                                     'Write the values, or let EXECUTE format(''… FROM (%L) TO (%L)'', …) in a DO block do it.');
    ELSIF psp.has_made_moment(moments) THEN
        PERFORM psp.refuse_plain_ddl('a date or time that a literal such as ''now'' stands for is not supported',
                                     'PostgreSQL replaces it by the time of the moment at which a server reads the statement: it would be another one at each.',
                                     'now() or CURRENT_DATE is computed when it is used; or write the value itself.');
    ELSIF psp.names_session_user(bare) THEN
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
