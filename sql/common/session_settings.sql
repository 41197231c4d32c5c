-- The settings that psp's own statements count on. The database, the role or the server may give applications others.
-- Settings that are right already are left alone, since some may be set by superusers only. A setting that the server does
-- not have is passed over.
SELECT set_config(s.name, v.value, false)
  FROM (VALUES
        -- Statements see what has been committed before them, and may write.
        ('default_transaction_isolation', 'read committed'),
        ('default_transaction_read_only', 'off'),
        ('default_transaction_deferrable', 'off'),
        ('session_replication_role', 'origin'),
        -- Nobody ends them. (Their timeouts are off, and their keepalives on, from the beginning: common/pg_session.cc.)
        ('exit_on_error', 'off'),
        -- To compile them takes longer than to run them.
        ('jit', 'off'),
        -- Values are written and read in one way.
        ('client_encoding', 'UTF8'),
        ('DateStyle', 'ISO, MDY'),
        ('IntervalStyle', 'postgres'),
        ('extra_float_digits', '1'),
        ('bytea_output', 'hex'),
        ('lc_monetary', 'C'),
        ('xmloption', 'content'),
        ('array_nulls', 'on'),
        ('standard_conforming_strings', 'on'),
        ('transform_null_equals', 'off'),
        ('quote_all_identifiers', 'off'),
        ('client_min_messages', 'warning')
       ) AS v(name, value)
  JOIN pg_settings s ON s.name = v.name
 WHERE s.setting IS DISTINCT FROM v.value
