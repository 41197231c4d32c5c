-- On how many synchronous standbys a decision must be before it is told: at least so many (psp primary copies), and so many as
-- PostgreSQL asks for now. How many are connected, and whether the role may see them.
-- synchronous_standby_names: FIRST 2 (a, b), ANY 2 (a, b), 2 (a, b), or names without a number: one of them.
SELECT c.copies,
       CASE WHEN btrim(s.names) = '' THEN 0
            ELSE coalesce(substring(s.names FROM '^\s*(?:[A-Za-z]+\s*)?(\d+)\s*\(')::integer, 1) END,
       (SELECT count(*) FROM psp.synchronous_standbys()),
       pg_has_role('pg_read_all_stats', 'USAGE')
  FROM psp.cluster c, current_setting('synchronous_standby_names') AS s (names)
