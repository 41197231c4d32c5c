-- Rows to certify updates of (transaction 1 wrote them), and a table of the same form with the same rows.
INSERT INTO psp.data (table_id, key, global_t, sp_id, image)
SELECT 1, int8send(n), 1, 1, convert_to(repeat('x', 200), 'UTF8') FROM generate_series(0, %(keys)s - 1) AS n;

CREATE TABLE public.raw (
    table_id integer NOT NULL,
    key      bytea NOT NULL,
    global_t bigint NOT NULL,
    sp_id    integer NOT NULL,
    deleted  boolean NOT NULL DEFAULT false,
    image    bytea,
    PRIMARY KEY (table_id, key)
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05);
INSERT INTO public.raw SELECT * FROM psp.data;
