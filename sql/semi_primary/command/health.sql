-- psp doctor: what a semi-primary tells of itself, in both modes. hook_tls: the sslmode of the commit hook's connections.
SELECT i.name, i.cluster_id::text, i.mode, i.capture, i.guarded, i.slots, i.catalog_version,
       substring(i.hook_conninfo FROM 'sslmode=([a-z-]+)') AS hook_tls,
       s.state, s.last_error, s.lag_ms, s.lag_transactions
  FROM psp.identity i CROSS JOIN psp.status s
