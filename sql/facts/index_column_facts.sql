-- The key columns of unique and exclusion indexes, and how their values are made equal in bytes where PostgreSQL calls them
-- equal (docs/decisions/06-keys-and-images.md).
--   number       of the table's column; 0: an expression
--   definition   SQL; column names are bare, everything else is qualified
--   operator_class  the one that tells which values are equal: the index's. Of an exclusion constraint, and UNIQUE (… WITHOUT OVERLAPS):
--                the default btree operator class whose equality is the operator by which it compares the column. Null: it compares
--                by another one
--   equal_image  equal for the operator class means equal bytes. Support function 4 of a btree operator class tells it. The two
--                that PostgreSQL has say: always, or (strings) if the collation is deterministic
--   collation    when it is one that does not tell all different strings apart
--   index_collation  when it is not the database's
--   equality     OPERATOR(schema.name) of a btree operator class
--   hash_function    f(type, bigint) of the hash operator class that has the same equality operator
--   normalise    none: the bytes as they are. text: enums (a label instead of an OID) and unpadded strings. base: a domain's
--                type instead of the domain's OID. hash, constant: guards only, a primary key cannot have them
--   key_type     the type of the normalised value: a domain's type with its modifier, otherwise the column's
--   has_text     a value's text is known to the daemon, and read as key_type to find its row; otherwise the row is found by the
--                key's bytes only. Not a user's type, an enum for example: its owner could make a cast that reads it otherwise
SELECT i.indexrelid AS index, k.n AS place, i.indkey[k.n - 1]::int AS number, m.*,
       CASE WHEN f.plain = 'numeric'::regtype THEN 'numeric'
            WHEN f.plain IN ('float4'::regtype, 'float8'::regtype) THEN 'float'
            WHEN m.equal_image AND (f.is_enum
                                    -- char without a length, which does not pad; also under a domain
                                    OR CASE WHEN m.type = f.plain THEN m.type_name ELSE f.plain_type END = 'bpchar') THEN 'text'
            WHEN m.equal_image AND f.plain_encoding = 'binary' THEN CASE WHEN m.type = f.plain THEN 'none' ELSE 'base' END
            -- The hash of an enum is that of its OID, which another server does not share.
            WHEN m.hash_function IS NOT NULL AND NOT f.has_enum THEN 'hash'
            ELSE 'constant' END AS normalise,
       CASE WHEN m.type = f.plain THEN m.type_name ELSE f.plain_type END AS key_type,
       -- writeset/key_text.h knows the same types.
       f.plain = ANY ('{bool,int2,int4,int8,numeric,float4,float8,oid,text,varchar,bpchar,name,uuid,bytea,date,timestamp,
                        timestamptz}'::regtype[]) AS has_text,
       format_type(f.plain, -1) AS plain_name
  FROM pg_catalog.pg_index i
 CROSS JOIN LATERAL generate_series(1, i.indnkeyatts) k(n)
 CROSS JOIN LATERAL (
    SELECT o.oid AS operator_class, v.type, format_type(v.type, v.modifier) AS type_name,
           a.attgenerated <> '' AS generated, v.definition,
           coalesce(equal.proname = 'btequalimage'
                    OR (equal.proname = 'btvarstrequalimage' AND coalesce(l.collisdeterministic, true)), false) AS equal_image,
           CASE WHEN NOT l.collisdeterministic THEN format('%I.%I', ln.nspname, l.collname) END AS collation,
           CASE WHEN l.collname <> 'default' THEN format('%I.%I', ln.nspname, l.collname) END AS index_collation,
           (SELECT format('OPERATOR(%I.%s)', qn.nspname, q.oprname)
              FROM pg_catalog.pg_amop b JOIN pg_catalog.pg_operator q ON q.oid = b.amopopr
              JOIN pg_catalog.pg_namespace qn ON qn.oid = q.oprnamespace
             WHERE b.amopfamily = o.opcfamily AND b.amoplefttype = o.opcintype AND b.amoprighttype = o.opcintype
               AND b.amopstrategy = 3 AND am.amname = 'btree') AS equality,
           (SELECT format('%I.%I', fn.nspname, f.proname)
              FROM pg_catalog.pg_amop b
              JOIN pg_catalog.pg_amop h ON h.amopopr = b.amopopr AND h.amopstrategy = 1
              JOIN pg_catalog.pg_am ham ON ham.oid = h.amopmethod AND ham.amname = 'hash'
              JOIN pg_catalog.pg_amproc p ON p.amprocfamily = h.amopfamily AND p.amprocnum = 2
                   AND p.amproclefttype = h.amoplefttype AND p.amprocrighttype = h.amoplefttype
              JOIN pg_catalog.pg_proc f ON f.oid = p.amproc
              JOIN pg_catalog.pg_namespace fn ON fn.oid = f.pronamespace
             WHERE b.amopfamily = o.opcfamily AND b.amoplefttype = o.opcintype AND b.amoprighttype = o.opcintype
               AND b.amopstrategy = 3
             LIMIT 1) AS hash_function
      -- A column of an index on "char" or name has another type than the table's column: take the table's.
      FROM pg_catalog.pg_attribute a
      LEFT JOIN pg_catalog.pg_constraint e ON i.indisexclusion AND e.conrelid = i.indrelid AND e.conindid = i.indexrelid AND e.contype IN ('x', 'u')
      LEFT JOIN pg_catalog.pg_opclass o
             ON o.oid = CASE WHEN NOT i.indisexclusion THEN i.indclass[k.n - 1]
                             ELSE (SELECT c.oid
                                     FROM pg_catalog.pg_amop b
                                     JOIN pg_catalog.pg_opclass c ON c.opcfamily = b.amopfamily AND c.opcintype = b.amoplefttype
                                     JOIN pg_catalog.pg_am bam ON bam.oid = c.opcmethod AND bam.amname = 'btree'
                                     JOIN pg_catalog.pg_type t ON t.oid = c.opcintype
                                    WHERE b.amopopr = e.conexclop[k.n] AND b.amopstrategy = 3 AND b.amoplefttype = b.amoprighttype
                                      AND c.opcdefault AND (i.indkey[k.n - 1] > 0 OR t.typtype <> 'p')) END
      LEFT JOIN pg_catalog.pg_am am ON am.oid = o.opcmethod
      -- Of an expression the index's column may have the type in which the index stores it (gist). So an exclusion constraint's is cast
      -- to what its operator compares.
     CROSS JOIN LATERAL (
        SELECT i.indisexclusion AND i.indkey[k.n - 1] = 0 AND o.oid IS NOT NULL AS is_cast,
               pg_get_indexdef(i.indexrelid, k.n, false) AS text) d
     CROSS JOIN LATERAL (
        SELECT CASE WHEN d.is_cast THEN o.opcintype ELSE a.atttypid END AS type, CASE WHEN d.is_cast THEN -1 ELSE a.atttypmod END AS modifier,
               CASE WHEN d.is_cast THEN format('(%s)::%s', d.text, format_type(o.opcintype, -1)) ELSE d.text END AS definition) v
      LEFT JOIN pg_catalog.pg_amproc ep ON ep.amprocfamily = o.opcfamily AND ep.amproclefttype = o.opcintype
           AND ep.amprocrighttype = o.opcintype AND ep.amprocnum = 4 AND am.amname = 'btree'
      LEFT JOIN pg_catalog.pg_proc equal ON equal.oid = ep.amproc
      LEFT JOIN pg_catalog.pg_collation l ON l.oid = i.indcollation[k.n - 1]
      LEFT JOIN pg_catalog.pg_namespace ln ON ln.oid = l.collnamespace
     WHERE a.attrelid = CASE WHEN i.indkey[k.n - 1] > 0 THEN i.indrelid ELSE i.indexrelid END
       AND a.attnum = CASE WHEN i.indkey[k.n - 1] > 0 THEN i.indkey[k.n - 1] ELSE k.n END
    OFFSET 0) m
 CROSS JOIN LATERAL (
    SELECT f.*, p.typtype = 'e' AS is_enum FROM type_facts f JOIN pg_catalog.pg_type p ON p.oid = f.plain
     WHERE f.type = m.type OFFSET 0) f
 WHERE i.indisunique OR i.indisexclusion
