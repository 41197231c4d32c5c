INSERT INTO psp.epochs (history, start_t)
SELECT e.history, e.start_t FROM unnest($1::uuid[], $2::int8[]) AS e (history, start_t)
