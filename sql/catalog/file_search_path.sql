-- The search_path that the server's files say; no row: none. Needs rights on both, which only superusers have as a rule.
SELECT f.setting FROM pg_catalog.pg_file_settings f WHERE f.name = 'search_path' AND f.error IS NULL ORDER BY f.seqno DESC LIMIT 1
