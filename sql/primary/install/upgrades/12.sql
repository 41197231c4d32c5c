-- From version 11. It is known which semi-primaries are connected, and since when the others are away.
ALTER TABLE psp.semi_primaries ADD COLUMN is_connected boolean NOT NULL DEFAULT false;
ALTER TABLE psp.semi_primaries ADD COLUMN seen_at timestamptz;

-- On which keys semi-primaries lose transactions.
CREATE UNLOGGED TABLE psp.loss_reports (
    sp_id      integer PRIMARY KEY,
    updated_at timestamptz NOT NULL,
    report     jsonb NOT NULL
) WITH (fillfactor = 50);

CREATE VIEW psp.conflicts AS
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
       p.updated_at
  FROM psp.loss_reports p
  JOIN psp.semi_primaries s USING (sp_id)
 CROSS JOIN jsonb_array_elements(p.report -> 'windows') w
 CROSS JOIN jsonb_array_elements(w.value -> 'keys') WITH ORDINALITY k(value, rank)
 CROSS JOIN jsonb_to_record(k.value) t(schema_name text, table_name text, index_name text, key text, kind text, losses bigint,
                                       spent_ms bigint, winners jsonb, changed_columns jsonb, remedy text)
 WHERE p.updated_at + make_interval(secs => (w.value ->> 'seconds')::integer + 60) > clock_timestamp();

-- The forms of tables are known, also after schema changes. Of tables as adopted, what is known of them is turned into
-- one: no lengths, and no column but the key's must have a value. Of those that schema changes have changed nothing is known until the next one.
ALTER TABLE psp.tables ADD COLUMN form bytea;
ALTER TABLE psp.table_versions ADD COLUMN form bytea;
UPDATE psp.tables t
   SET form = (SELECT int2send(count(*)::int2) || coalesce(string_agg(
                          int4send(coalesce(CASE c.value ->> 'encoding' WHEN 'text' THEN 'text'::regtype
                                                                        ELSE (SELECT y.oid FROM pg_type y WHERE y.oid = to_regtype(c.value ->> 'type') AND y.typtype <> 'd') END::oid, 0)::bigint::int4)
                          || int4send(-1) || '\x00', '' ORDER BY c.ordinality), '')
                 FROM jsonb_array_elements(t.columns) WITH ORDINALITY c)
           || (SELECT int2send(count(*)::int2) || string_agg(
                          int4send(coalesce(CASE k.value ->> 'normalise' WHEN 'text' THEN 'text'::regtype
                                                                         ELSE to_regtype(k.value ->> 'type') END::oid, 0)::bigint::int4)
                          || int4send(coalesce((SELECT c.ordinality - 1 FROM jsonb_array_elements(t.columns) WITH ORDINALITY c
                                                 WHERE c.value -> 'name' = k.value -> 'name'), -1)::int4)
                          || set_byte('\x00', 0, array_position('{none,numeric,float,text,base}', k.value ->> 'normalise') - 1),
                          '' ORDER BY k.ordinality)
                 FROM jsonb_array_elements(t.key_columns) WITH ORDINALITY k);
ALTER TABLE psp.cluster ALTER COLUMN schema_version SET DEFAULT 12;
UPDATE psp.cluster SET schema_version = 12;
