-- In the session that runs a job: the settings $1 under which it was asked for. pg_temp comes last. The statement itself stays here.
SELECT set_config(s.name, CASE s.name WHEN 'search_path' THEN concat_ws(', ', nullif($1::jsonb ->> s.name, ''), 'pg_temp')
                                      ELSE $1::jsonb ->> s.name END, false)
  FROM psp.names_of_settings() s(name)
UNION ALL SELECT set_config('psp.schema_changes', 'local', false)
