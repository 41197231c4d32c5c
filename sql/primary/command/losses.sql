-- psp primary status, psp cluster status: who has lost to other semi-primaries lately, and what is reserved for them. One JSON
-- value; no row if nobody has lost for five seconds, since the daemon writes only while somebody does. A name of a table is as adopted.
SELECT jsonb_build_object(
           'losers',
           (SELECT coalesce(jsonb_agg(jsonb_build_object('name', s.name) || l - 'sp_id' ORDER BY s.sp_id), '[]')
              FROM jsonb_array_elements(d.status -> 'losers') l
              JOIN psp.semi_primaries s ON s.sp_id = (l ->> 'sp_id')::integer),
           'reservations',
           (SELECT coalesce(jsonb_agg(
                       jsonb_build_object('name', s.name,
                                          'table', coalesce(t.schema_name || '.' || t.table_name,
                                                            'table_id ' || (r ->> 'table_id')))
                       || r - 'sp_id' - 'table_id' ORDER BY (r ->> 'age_ms')::bigint DESC), '[]')
              FROM jsonb_array_elements(d.status -> 'reservations') r
              JOIN psp.semi_primaries s ON s.sp_id = (r ->> 'sp_id')::integer
              LEFT JOIN psp.tables t
                     ON t.table_id = (r ->> 'table_id')::integer
                     OR t.guards @> jsonb_build_array(jsonb_build_object('guard_id', (r ->> 'table_id')::integer)))) AS losses
  FROM psp.losses d
 WHERE d.updated_at BETWEEN clock_timestamp() - interval '5 seconds' AND clock_timestamp() + interval '5 seconds'
