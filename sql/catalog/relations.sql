-- Tables and their partitions. tree: the table and its partitions at every level, from the top. parents: of INHERITS.
-- row_security_forced: the owner does not see all rows. owner_writes: it has the rights of an owner.
SELECT c.oid::int8 AS oid, o.schema, o.name, o.kind::text AS kind, o.persistence::text AS persistence,
       c.relispartition AS is_partition,
       c.relforcerowsecurity AND NOT EXISTS (
           SELECT FROM pg_catalog.pg_roles r WHERE r.oid = c.relowner AND (r.rolsuper OR r.rolbypassrls)
       ) AS row_security_forced,
       pg_catalog.has_schema_privilege(c.relowner, c.relnamespace, 'USAGE') AND (
           SELECT pg_catalog.bool_and(pg_catalog.has_table_privilege(c.relowner, c.oid, r))
             FROM pg_catalog.unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) r
       ) AS owner_writes,
       -- Never analysed: by the size. Of a partitioned table its partitions tell.
       CASE WHEN c.relkind = 'p' THEN 0 WHEN c.reltuples > 0 THEN c.reltuples::int8
            ELSE pg_catalog.pg_relation_size(c.oid) / 100 END AS rows_about,
       pg_catalog.pg_table_size(c.oid) AS bytes,
       CASE WHEN c.relkind = 'p' THEN
           ARRAY(SELECT t.relid::oid::int8 FROM pg_catalog.pg_partition_tree(c.oid) t
                 ORDER BY t.level, t.relid::oid)
            ELSE ARRAY[c.oid::int8] END AS tree,
       ARRAY(SELECT pn.nspname || '.' || p.relname FROM pg_catalog.pg_inherits i
             JOIN pg_catalog.pg_class p ON p.oid = i.inhparent
             JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
             WHERE i.inhrelid = c.oid AND NOT c.relispartition ORDER BY i.inhseqno) AS parents,
       (SELECT k.add_key FROM key_facts k WHERE k.relation = c.oid) AS add_key,
       ARRAY(SELECT k.conname FROM pg_catalog.pg_constraint k
             WHERE k.conrelid = c.oid AND k.contype = 'c'
               AND coalesce((pg_catalog.to_jsonb(k) ->> 'conenforced')::boolean, true) AND (
                 k.conbin::text ~ 'SQLVALUEFUNCTION'  -- current_timestamp, current_user and their like
                 OR EXISTS (
                     SELECT FROM pg_catalog.regexp_matches(k.conbin::text, ':(op)?funcid (\d+)', 'g') m
                     JOIN pg_catalog.pg_proc f ON f.oid = m[2]::oid
                     WHERE f.provolatile = 'v'
                        OR f.proname IN ('now', 'statement_timestamp', 'transaction_timestamp',
                                         'current_setting')))
             ORDER BY k.conname) AS unsteady_checks,
       ARRAY(SELECT k.conname FROM pg_catalog.pg_constraint k
             WHERE k.conrelid = c.oid AND k.contype = 'c' AND NOT k.convalidated
               AND coalesce((pg_catalog.to_jsonb(k) ->> 'conenforced')::boolean, true)
             ORDER BY k.conname) AS invalid_checks,
       ARRAY(SELECT w.rulename FROM pg_catalog.pg_rewrite w WHERE w.ev_class = c.oid AND w.ev_enabled IN ('A', 'R')) AS loud_rules
FROM own_relations o JOIN pg_catalog.pg_class c ON c.oid = o.relation
WHERE o.kind IN ('r', 'p', 'f')
ORDER BY o.schema, o.name
