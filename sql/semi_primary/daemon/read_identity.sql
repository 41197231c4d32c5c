-- psp.daemon_status is unlogged: its row is gone after a crash, and otherwise tells how the last daemon left it.
SELECT uuid_send(i.cluster_id) AS cluster_id, i.sp_id, i.name, i.mode, i.schema_version, i.token, i.joining, w.watermark,
       psp.this_database() AS database, has_parameter_privilege('deadlock_timeout', 'SET') AS may_set_deadlock_timeout,
       coalesce((SELECT (d.status ->> 'lacks_own')::boolean FROM psp.daemon_status d), true) AS may_lack_own
  FROM psp.identity i, psp.watermark w
