-- psp schema adopt: what comes from the tables after they have been locked.
CREATE TEMPORARY TABLE written_rows ON COMMIT DROP AS
SELECT table_id, key, global_t, sp_id, deleted, image FROM psp.data WITH NO DATA;
CREATE TEMPORARY TABLE present_keys (key bytea NOT NULL) ON COMMIT DROP;
