-- certify_batch.sql by the server module psp_certify: the same parameters, the same rows.
SELECT i, global_t, reason, lost_table_id, lost_key, winner_t, winner_sp_id, lost_use
FROM psp.certify_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)
