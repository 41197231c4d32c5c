-- psp schema adopt: rows of a table that were deleted while the snapshot was copied.
DELETE FROM psp.data d
 WHERE d.table_id = %s AND NOT EXISTS (SELECT FROM present_keys p WHERE p.key = d.key)
