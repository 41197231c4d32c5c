-- Whether the primary of an adopted database may adopt again: the remaining members, and whether a plain database has
-- everything that was committed. has_rows: rows could be lost.
SELECT ARRAY(SELECT name FROM psp.semi_primaries WHERE released_at IS NULL ORDER BY name) AS members,
       EXISTS (SELECT FROM psp.semi_primaries
                WHERE released_t >= greatest(l.truncated_t, (SELECT max(global_t) FROM psp.replication_log))) AS has_all,
       EXISTS (SELECT FROM psp.data WHERE NOT deleted) AS has_rows
  FROM psp.log_start l
