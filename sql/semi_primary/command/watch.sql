-- psp top, psp console: what a semi-primary tells of itself, as one JSON value. Any role may ask; psp.status and psp.conflicts keep from a role what it
-- may not see.
-- sees_jobs: whether the role may ask for them (watch_jobs.sql).
-- blockers: sessions that the apply worker waits for, directly or through others; `waits`: such a session waits itself.
WITH RECURSIVE worker AS (
    SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND starts_with(application_name, 'psp apply worker')
), chain AS (
    SELECT pid FROM worker
    UNION  -- not ALL: a deadlock is a circle
    SELECT b.pid FROM chain c CROSS JOIN LATERAL unnest(pg_blocking_pids(c.pid)) AS b(pid)
)
SELECT jsonb_build_object(
           'status', (SELECT to_jsonb(s) FROM psp.status s),
           'postgres', current_setting('server_version'),
           'sees_jobs', coalesce(has_table_privilege(to_regclass('psp.schema_jobs'), 'SELECT'), false),
           'conflicts',
           (SELECT coalesce(jsonb_agg(to_jsonb(k) || jsonb_build_object('within', extract(epoch FROM k.within)::integer, 'loser', i.name)
                                      ORDER BY k.within, k.rank), '[]')
              FROM psp.conflicts k CROSS JOIN psp.status i),
           'blockers',
           (SELECT coalesce(jsonb_agg(jsonb_build_object(
                       'pid', a.pid, 'role', a.usename, 'application', a.application_name,
                       'age_s', extract(epoch FROM clock_timestamp() - a.xact_start)::float,
                       'waits', pg_blocking_pids(a.pid) <> '{}') ORDER BY a.xact_start, a.pid), '[]')
              FROM chain JOIN pg_stat_activity a USING (pid)
             WHERE pid NOT IN (SELECT pid FROM worker)))
