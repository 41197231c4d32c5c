-- psp top, psp console: the keys that are lost at all semi-primaries, as JSON objects of psp.conflicts. `within` in seconds.
SELECT to_jsonb(k) || jsonb_build_object('within', extract(epoch FROM k.within)::integer) AS conflict
  FROM psp.conflicts k
 ORDER BY k.within, k.losses DESC, k.rank
