INSERT INTO psp.epochs (place, history, start_t)
SELECT e.place, e.history, e.start_t FROM unnest($1::uuid[], $2::int8[]) WITH ORDINALITY AS e (history, start_t, place)
