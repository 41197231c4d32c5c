SELECT uuid_send(i.cluster_id) AS cluster_id, i.sp_id, i.name, i.mode, i.schema_version, i.token, i.joining, w.watermark,
       psp.this_database() AS database
  FROM psp.identity i, psp.watermark w
