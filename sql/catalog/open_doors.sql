-- psp doctor: lines of pg_hba.conf that let in others than this machine without a check, or that PostgreSQL cannot read. As a superuser.
SELECT CASE WHEN h.error IS NOT NULL THEN format('line %s: %s', h.line_number, h.error)
            ELSE format('line %s: %s %s %s %s', h.line_number, h.type, array_to_string(h.user_name, ','), h.address, h.auth_method) END AS line
  FROM pg_hba_file_rules h
 WHERE h.error IS NOT NULL
    OR h.auth_method IN ('trust', 'password') AND h.type NOT IN ('local', 'hostssl', 'hostgssenc')
       AND h.address NOT IN ('samehost', 'localhost', '::1') AND h.address !~ '^127\.'
    OR h.auth_method = 'trust' AND h.type IN ('hostssl', 'hostgssenc')
       AND h.address NOT IN ('samehost', 'localhost', '::1') AND h.address !~ '^127\.'
 ORDER BY h.line_number
