-- $1: psp.proto.LossReport as JSON; $2: the version of the catalog that its names are of. A schema change may have come in between: then a name may be
-- another table's by now, and no table is noted.
INSERT INTO psp.loss_report (updated_at, report, tables, statements)
SELECT clock_timestamp(), $1::jsonb,
       coalesce((SELECT jsonb_object_agg(t.table_id, jsonb_build_array(t.schema_name, t.table_name)) FROM psp.tables t
                  WHERE i.catalog_version = $2::integer
                    AND EXISTS (SELECT FROM jsonb_path_query($1::jsonb, '$.windows[*].keys[*]') k
                                 WHERE (k ->> 'schema_name', k ->> 'table_name') = (t.schema_name, t.table_name))), '{}'),
       psp.statement_words($1::jsonb)
  FROM psp.identity i
ON CONFLICT (only_row) DO UPDATE SET updated_at = EXCLUDED.updated_at, report = EXCLUDED.report, tables = EXCLUDED.tables, statements = EXCLUDED.statements
