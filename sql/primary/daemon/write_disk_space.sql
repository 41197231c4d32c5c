-- $1: bytes that are free, $2: of so many.
INSERT INTO psp.disk_space (updated_at, free_bytes, size_bytes) VALUES (clock_timestamp(), $1, $2)
ON CONFLICT (only_row) DO UPDATE SET updated_at = EXCLUDED.updated_at, free_bytes = EXCLUDED.free_bytes, size_bytes = EXCLUDED.size_bytes
