-- The columns of foreign keys, in the order of the unique index that they refer to, and their values as that index's column has them.
-- Those that partitions have from their whole are left out, and those that PostgreSQL does not check (NOT ENFORCED). Of a period
-- (FOREIGN KEY … PERIOD) all values have one normalised one: several rows together may be what a row refers to.
--   index     that of the whole table, where it refers to a partition
--   value     a format for the column's name: SQL of the parent's type under all domains. Equal values get equal bytes when they are
--             normalised as the parent's are. An int that the parent's type cannot hold is NULL: no row has that key. Null: values of the two
--             types are compared by code that a user may have made, or whose result no cast tells
--   parent_value  the same for the parent's own column
--   is_same_type  both columns have one type under all domains, and no value is padded
--   is_lossy  different values may have the same normalised one
--   may_change, parent_may_change  it is generated: an update that does not name it may change it
SELECT k.oid AS foreign_key, x.index, f.place, k.conrelid AS relation, c.attname AS name, p.attname AS parent_name,
       c.attgenerated <> '' AS may_change, p.attgenerated <> '' AS parent_may_change, f.normalise IN ('hash', 'constant') AS is_lossy,
       t.child = t.parent AND t.parent <> 'bpchar'::regtype AS is_same_type,
       CASE WHEN t.parent < 16384 THEN format('%%1$s::pg_catalog.%I', t.parent_name) ELSE '%1$s' END AS parent_value,
       CASE WHEN f.normalise = 'constant' THEN '%1$s'
            -- A string is padded to the parent's length, if it has one.
            WHEN t.parent = 'bpchar'::regtype AND t.child IN ('text'::regtype, 'varchar'::regtype, 'bpchar'::regtype)
            THEN '%1$s::pg_catalog.bpchar' || CASE WHEN t.modifier > 4 THEN format('(%s)', t.modifier - 4) ELSE '' END
            WHEN t.child = t.parent
            -- A user's type has no name that psp's functions may use, and needs none.
            THEN CASE WHEN t.parent < 16384 THEN format('%%1$s::pg_catalog.%I', t.parent_name) ELSE '%1$s' END
            WHEN t.parent IN ('text'::regtype, 'varchar'::regtype)
                 AND t.child IN ('text'::regtype, 'varchar'::regtype, 'bpchar'::regtype)
            THEN format('%%1$s::pg_catalog.text::pg_catalog.%I', t.parent_name)  -- without the blanks that pad it
            WHEN t.parent = 'numeric'::regtype AND t.child IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype)
                 OR t.parent = 'int8'::regtype AND t.child IN ('int2'::regtype, 'int4'::regtype)
                 OR t.parent = 'int4'::regtype AND t.child = 'int2'::regtype
                 OR t.parent = 'float8'::regtype AND t.child = 'float4'::regtype
            THEN format('%%1$s::pg_catalog.%I', t.parent_name)
            WHEN t.parent = 'int4'::regtype AND t.child = 'int8'::regtype
            THEN 'CASE WHEN %1$s OPERATOR(pg_catalog.>=) -2147483648 AND %1$s OPERATOR(pg_catalog.<=) 2147483647 '
                 'THEN %1$s::pg_catalog.int4 END'
            WHEN t.parent = 'int2'::regtype AND t.child IN ('int4'::regtype, 'int8'::regtype)
            THEN 'CASE WHEN %1$s OPERATOR(pg_catalog.>=) -32768 AND %1$s OPERATOR(pg_catalog.<=) 32767 '
                 'THEN %1$s::pg_catalog.int2 END' END AS value
  FROM pg_catalog.pg_constraint k
 CROSS JOIN LATERAL (SELECT coalesce(pg_partition_root(k.conindid), k.conindid)::oid AS index) x
 -- (OFFSET 0: looked up for each foreign key. PostgreSQL would read all columns of the database for each. Columns of catalogs are named, not *: they
 -- differ between versions, and pg_upgrade restores views.)
 CROSS JOIN LATERAL (SELECT * FROM index_column_facts a WHERE a.index = x.index OFFSET 0) f
 CROSS JOIN LATERAL (SELECT a.attname, a.atttypid, a.atttypmod, a.attgenerated FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid
                      WHERE i.indexrelid = x.index AND a.attnum = f.number OFFSET 0) p
 CROSS JOIN LATERAL (SELECT c.attname, c.atttypid, c.attgenerated FROM unnest(k.conkey, k.confkey) n(child, parent)
                      JOIN pg_catalog.pg_attribute q ON q.attrelid = k.confrelid AND q.attnum = n.parent
                      JOIN pg_catalog.pg_attribute c ON c.attrelid = k.conrelid AND c.attnum = n.child
                      WHERE q.attname = p.attname OFFSET 0) c
 CROSS JOIN LATERAL (SELECT * FROM plain_types y WHERE y.type = p.atttypid OFFSET 0) pt
 CROSS JOIN LATERAL (SELECT * FROM plain_types y WHERE y.type = c.atttypid OFFSET 0) ct
 CROSS JOIN LATERAL (
    SELECT ct.plain AS child, pt.plain AS parent, u.typname AS parent_name,
           CASE WHEN p.atttypid = pt.plain THEN p.atttypmod ELSE pt.modifier END AS modifier
      FROM pg_catalog.pg_type u WHERE u.oid = pt.plain) t
 WHERE k.contype = 'f' AND k.conparentid = 0 AND coalesce((to_jsonb(k) ->> 'conenforced')::boolean, true)
