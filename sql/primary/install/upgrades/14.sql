-- From version 13.
-- With which statement a transaction has lost (pg_stat_statements).
CREATE OR REPLACE VIEW psp.conflicts AS
SELECT s.name AS loser, make_interval(secs => (w.value ->> 'seconds')::integer) AS within, k.rank::integer,
       nullif(concat_ws('.', nullif(t.schema_name, ''), nullif(t.table_name, '')), '') AS table_name,
       nullif(t.key, '') AS key,
       replace(lower(substr(t.kind, 6)), '_', ' ') AS kind,
       t.losses,
       (w.value ->> 'error_max')::bigint AS losses_error,
       round(t.losses * 100.0 / nullif((w.value ->> 'losses')::bigint, 0), 1) AS percent,
       t.spent_ms AS waited_ms,
       (SELECT string_agg(format('%s: %s', x ->> 'name', x ->> 'losses'), ', ' ORDER BY (x ->> 'losses')::bigint DESC, x ->> 'name')
          FROM jsonb_array_elements(t.winners) x) AS winners,
       (SELECT string_agg(x, ', ') FROM jsonb_array_elements_text(t.changed_columns) x) AS columns,
       nullif(t.index_name, '') AS index_name,
       t.remedy,
       p.updated_at,
       nullif(t.query_id, 0) AS query_id
  FROM psp.loss_reports p
  JOIN psp.semi_primaries s USING (sp_id)
 CROSS JOIN jsonb_array_elements(p.report -> 'windows') w
 CROSS JOIN jsonb_array_elements(w.value -> 'keys') WITH ORDINALITY k(value, rank)
 CROSS JOIN jsonb_to_record(k.value) t(schema_name text, table_name text, index_name text, key text, kind text, losses bigint,
                                       spent_ms bigint, winners jsonb, changed_columns jsonb, remedy text, query_id bigint)
 WHERE p.updated_at + make_interval(secs => (w.value ->> 'seconds')::integer + 60) > clock_timestamp();
-- Where this server's data are, for psp-primary, which tells the free space if it runs at the same machine. Null: who made psp may not know it.
CREATE FUNCTION psp.data_directory() RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN current_setting('data_directory');
EXCEPTION WHEN insufficient_privilege THEN
    RETURN NULL;
END $$;
REVOKE EXECUTE ON FUNCTION psp.data_directory() FROM PUBLIC;

-- As psp-primary has seen it last, every few seconds.
CREATE UNLOGGED TABLE psp.disk_space (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    updated_at timestamptz NOT NULL,
    free_bytes bigint NOT NULL,  -- for roles other than root
    size_bytes bigint NOT NULL
) WITH (fillfactor = 50);

ALTER TABLE psp.cluster ALTER COLUMN schema_version SET DEFAULT 14;
UPDATE psp.cluster SET schema_version = 14;
