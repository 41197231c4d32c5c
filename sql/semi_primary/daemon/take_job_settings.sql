-- In the session that runs a job: the settings $1 under which role $2 has asked for it. The statement itself stays here.
SELECT set_config(s.name, s.value, false) FROM psp.settings_to_take($1::jsonb, $2::name) s
UNION ALL SELECT set_config('psp.schema_changes', 'local', false)
