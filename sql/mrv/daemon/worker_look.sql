-- The time, microseconds since 1970, and whether there is anything to do in this database.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us,
       to_regclass('psp_mrv.outcomes') IS NOT NULL AS is_installed
