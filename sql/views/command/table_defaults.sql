-- Defaults and identity sequences of a table's columns. An identity column's sequence is found by its dependency;
-- pg_get_serial_sequence would want quoting.
SELECT a.attname::text AS name, pg_get_expr(d.adbin, d.adrelid) AS expression,
       (SELECT s.objid::regclass::text FROM pg_depend s
        WHERE a.attidentity <> '' AND s.classid = 'pg_class'::regclass AND s.refclassid = 'pg_class'::regclass
           AND s.refobjid = a.attrelid AND s.refobjsubid = a.attnum AND s.deptype = 'i') AS sequence
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
