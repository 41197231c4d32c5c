-- psp schema join: the roles as which schema changes run, and whether all of a role's are jobs. An image is what record_send makes: before `role` come the number
-- of columns, two integers, a time, each with type and length, and a text of the length l; after it the settings, whose first byte is jsonb's version.
SELECT convert_from(substring(d.image FROM 61 + l.bytes FOR r.bytes), 'UTF8') AS role,
       bool_and(convert_from(substring(d.image FROM 70 + l.bytes + r.bytes FOR s.bytes - 1), 'UTF8')::jsonb ? 'job') AS only_jobs
  FROM psp.data d
 CROSS JOIN LATERAL (SELECT ('x' || encode(substring(d.image FROM 49 FOR 4), 'hex'))::bit(32)::integer) l(bytes)
 CROSS JOIN LATERAL (SELECT ('x' || encode(substring(d.image FROM 57 + l.bytes FOR 4), 'hex'))::bit(32)::integer) r(bytes)
 CROSS JOIN LATERAL (SELECT ('x' || encode(substring(d.image FROM 65 + l.bytes + r.bytes FOR 4), 'hex'))::bit(32)::integer) s(bytes)
 WHERE d.table_id = @SCHEMA_HISTORY_ID@ AND NOT d.deleted
 GROUP BY role
 ORDER BY role
