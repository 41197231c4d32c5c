INSERT INTO psp.loss_reports (sp_id, updated_at, report) VALUES ($1::integer, clock_timestamp(), $2::jsonb)
ON CONFLICT (sp_id) DO UPDATE SET updated_at = EXCLUDED.updated_at, report = EXCLUDED.report
