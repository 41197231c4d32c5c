-- psp primary promote: how much of the primary a semi-primary knows of. followed: the newest start of psp-primary that it has followed, and
-- must find again; null: there is none, or psp schema accept-loss was said. can_commit: its primary decides; while it is away for
-- planned work, COMMITs wait.
SELECT i.name, i.cluster_id::text,
       greatest(w.watermark, (SELECT max(global_t) FROM psp.applied), (SELECT closed_t FROM psp.status)) AS newest_t,
       (SELECT history::text FROM psp.epochs WHERE binding ORDER BY place DESC LIMIT 1) AS followed,
       psp.can_commit() AND (SELECT state FROM psp.status) <> 'paused' AS can_commit
  FROM psp.identity i CROSS JOIN psp.watermark w
