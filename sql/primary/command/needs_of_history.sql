-- psp schema join: the roles as which schema changes run, whether all of a role's are jobs, which schemas its search_paths had that no statement
-- names, and its statements that may name other roles. An image is what record_send makes: before `role` come the number of columns, two integers, a time, each with type and length, and a text of
-- the length l; after it the settings, whose first byte is jsonb's version, and the statement.
WITH history AS MATERIALIZED (
    SELECT convert_from(substring(d.image FROM 61 + l.bytes FOR r.bytes), 'UTF8') AS role,
           convert_from(substring(d.image FROM 70 + l.bytes + r.bytes FOR s.bytes - 1), 'UTF8')::jsonb AS settings,
           convert_from(substring(d.image FROM 77 + l.bytes + r.bytes + s.bytes), 'UTF8') AS statement
      FROM psp.data d
     CROSS JOIN LATERAL (SELECT ('x' || encode(substring(d.image FROM 49 FOR 4), 'hex'))::bit(32)::integer) l(bytes)
     CROSS JOIN LATERAL (SELECT ('x' || encode(substring(d.image FROM 57 + l.bytes FOR 4), 'hex'))::bit(32)::integer) r(bytes)
     CROSS JOIN LATERAL (SELECT ('x' || encode(substring(d.image FROM 65 + l.bytes + r.bytes FOR 4), 'hex'))::bit(32)::integer) s(bytes)
     WHERE d.table_id = @SCHEMA_HISTORY_ID@ AND NOT d.deleted
), paths AS (
    SELECT DISTINCT h.role, s.name
      FROM history h CROSS JOIN LATERAL jsonb_array_elements_text(h.settings -> 'schemas') s(name)
     WHERE NOT h.settings ? 'job' AND s.name <> 'psp' AND s.name !~ '^pg_temp_'  -- psp.reassign_owned has it; it is made before
)
SELECT h.role, bool_and(h.settings ? 'job') AS only_jobs,
       ARRAY(SELECT p.name FROM paths p
              WHERE p.role = h.role
                AND NOT EXISTS (SELECT FROM history m WHERE m.statement ~* '\mschema\M' AND position(lower(p.name) IN lower(m.statement)) > 0)) AS schemas,
       coalesce(array_agg(h.statement) FILTER (WHERE h.statement ~* '\m(grant|revoke|owner|authorization|policy|mapping|owned)\M' AND NOT h.settings ? 'job'),
                '{}') AS statements
  FROM history h GROUP BY h.role ORDER BY h.role
