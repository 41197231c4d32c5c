INSERT INTO psp.losses (updated_at, status) VALUES (clock_timestamp(), $1::jsonb)
ON CONFLICT (only_row) DO UPDATE SET updated_at = EXCLUDED.updated_at, status = EXCLUDED.status
