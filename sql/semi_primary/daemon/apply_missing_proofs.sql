-- Those of the own commits $1 (global_t) that have no proof of being in.
SELECT m.global_t FROM unnest($1::bigint[]) AS m(global_t)
 WHERE NOT EXISTS (SELECT FROM psp.applied a WHERE a.global_t = m.global_t)
