-- On how many synchronous standbys a decision must be before it is told: at least so many (psp primary copies), and so many as
-- PostgreSQL asks for now. How many are connected, whether the role may see them, how many names are listed, and whether any name will do.
-- synchronous_standby_names: FIRST 2 (a, b), ANY 2 (a, b), 2 (a, b), or names without a number: one of them. A quoted name may have a comma.
SELECT c.copies,
       CASE WHEN btrim(s.names) = '' THEN 0
            ELSE coalesce(substring(s.names FROM '^\s*(?:[A-Za-z]+\s*)?(\d+)\s*\(')::integer, 1) END,
       (SELECT count(*) FROM psp.synchronous_standbys()),
       pg_has_role('pg_read_all_stats', 'USAGE'),
       CASE WHEN btrim(s.names) = '' THEN 0
            ELSE cardinality(string_to_array(regexp_replace(s.names, '"([^"]|"")*"', 'name', 'g'), ',')) END,
       EXISTS (SELECT FROM regexp_matches(s.names, '"((?:[^"]|"")*)"|([^",()[:space:]]+)', 'g') n(name) WHERE coalesce(n.name[1], n.name[2]) = '*')
  FROM psp.cluster c, current_setting('synchronous_standby_names') AS s (names)
