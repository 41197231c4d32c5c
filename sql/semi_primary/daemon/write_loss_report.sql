INSERT INTO psp.loss_report (updated_at, report) VALUES (clock_timestamp(), $1::jsonb)
ON CONFLICT (only_row) DO UPDATE SET updated_at = EXCLUDED.updated_at, report = EXCLUDED.report
