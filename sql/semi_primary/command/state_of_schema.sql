-- psp schema join --schema-from: who this semi-primary is, and what psp knows of its schema. owners: captured tables that belong to another role here than at the others.
SELECT i.cluster_id::text, i.name, i.mode, i.joining, i.schema_version, i.catalog_version, i.last_number,
       (SELECT string_agg(t.relation::regclass::text, ', ' ORDER BY t.relation::regclass::text) FROM psp.tables_of_others() t) AS owners
  FROM psp.identity i
