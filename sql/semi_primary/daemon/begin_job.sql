-- The next job of this semi-primary, if there is one.
SELECT change, statement_n, statement, role, settings::text, is_drop, leftover FROM psp.begin_job() WHERE change IS NOT NULL
