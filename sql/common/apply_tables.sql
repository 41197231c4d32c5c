-- What the apply worker needs to know of each captured table: the element types of its column and key arrays, and its
-- statements. One array parameter for each column; search_path is pg_catalog, so every name comes out qualified.
-- Views mode: rows go into T_persistent with the global_t that wrote them (one more array, the last), a deleted one stays
-- as a tombstone, and nothing older replaces anything newer.
WITH RECURSIVE base(oid, base) AS (  -- a domain's base type, any other type itself
    SELECT oid, oid FROM pg_type WHERE typtype <> 'd'
    UNION ALL
    SELECT d.oid, b.base FROM base b JOIN pg_type d ON d.typbasetype = b.oid AND d.typtype = 'd'
), tables AS (
    SELECT t.*, t.persistent IS NOT NULL AS versioned,
           format('%I.%I', t.schema_name, coalesce(t.persistent, t.table_name)) AS qualified,
           to_regclass(format('%I.%I', t.schema_name, coalesce(t.persistent, t.table_name))) AS relation
      FROM psp.tables t
), columns AS (
    SELECT t.table_id, c.ordinality AS n, a.attname AS name, a.attidentity = 'a' AS always,
           c.value ->> 'encoding' = 'text' AS is_text,
           CASE WHEN c.value ->> 'encoding' = 'text' THEN 'text'::regtype::oid ELSE b.base END AS element,
           format_type(a.atttypid, a.atttypmod) AS type_name,
           t.key_columns @> jsonb_build_array(jsonb_build_object('name', a.attname)) AS in_key
      FROM tables t, jsonb_array_elements(t.columns) WITH ORDINALITY c
      JOIN pg_attribute a ON a.attname = c.value ->> 'name' AND NOT a.attisdropped
      JOIN base b ON b.oid = a.atttypid
     WHERE a.attrelid = t.relation
), keys AS (
    SELECT t.table_id, k.ordinality AS n, a.attname AS name, b.base AS element
      FROM tables t, jsonb_array_elements(t.key_columns) WITH ORDINALITY k
      JOIN pg_attribute a ON a.attname = k.value ->> 'name' AND NOT a.attisdropped
      JOIN base b ON b.oid = a.atttypid
     WHERE a.attrelid = t.relation
), column_texts AS (
    SELECT table_id, count(*) AS number,
           string_agg(element::text, ',' ORDER BY n) AS oids,
           string_agg(format('%I', name), ', ' ORDER BY n) AS names,
           string_agg(CASE WHEN is_text THEN format('u.c%s::%s', n, type_name) ELSE format('u.c%s', n) END, ', ' ORDER BY n) AS selected,
           string_agg(format('$%s::%s', n, format_type(e.typarray, -1)), ', ' ORDER BY n) AS arrays,
           string_agg('c' || n, ', ' ORDER BY n) AS aliases,
           string_agg(format('%I = EXCLUDED.%I', name, name), ', ' ORDER BY n) FILTER (WHERE NOT always) AS assignments,
           bool_or(always AND NOT in_key) AS has_fixed
      FROM columns JOIN pg_type e ON e.oid = element GROUP BY table_id
), key_texts AS (
    SELECT table_id, count(*) AS number,
           string_agg(element::text, ',' ORDER BY n) AS oids,
           string_agg(name, chr(1) ORDER BY n) AS plain_names,
           string_agg(format('%I', name), ', ' ORDER BY n) AS names,
           string_agg(format('$%s::%s', n, format_type(e.typarray, -1)), ', ' ORDER BY n) AS arrays,
           string_agg('k' || n, ', ' ORDER BY n) AS aliases,
           string_agg(format('t.%I = u.k%s', name, n), ' AND ' ORDER BY n) AS matches
      FROM keys JOIN pg_type e ON e.oid = element GROUP BY table_id
)
SELECT t.table_id, t.schema_name, t.table_name, t.versioned, c.oids AS column_oids, k.oids AS key_oids, k.plain_names AS key_names,
       -- not an arbiter of ON CONFLICT, or a column that an update cannot set
       c.has_fixed OR EXISTS (SELECT FROM pg_constraint p WHERE p.conrelid = t.relation AND p.contype = 'p' AND p.condeferrable)
           AS always_replace,
       CASE WHEN t.versioned
            THEN format('INSERT INTO %s AS t (%s, deleted, global_t) SELECT %s, false, u.global_t '
                        'FROM unnest(%s, $%s::bigint[]) AS u(%s, global_t)',
                        t.qualified, c.names, c.selected, c.arrays, c.number + 1, c.aliases)
            ELSE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM unnest(%s) AS u(%s)',
                        t.qualified, c.names, c.selected, c.arrays, c.aliases) END AS insert_sql,
       format(' ON CONFLICT (%s) DO ', k.names) ||
           -- <=: a row whose unique value changes hands is a tombstone of the same global_t by then.
           CASE WHEN t.versioned
                THEN format('UPDATE SET %s, deleted = false, global_t = EXCLUDED.global_t WHERE t.global_t <= EXCLUDED.global_t',
                            c.assignments)
                ELSE coalesce('UPDATE SET ' || c.assignments, 'NOTHING') END AS on_conflict_sql,
       CASE WHEN t.versioned
            THEN format('UPDATE %s AS t SET deleted = true, global_t = u.global_t FROM unnest(%s, $%s::bigint[]) AS u(%s, global_t) '
                        'WHERE %s AND t.global_t < u.global_t',
                        t.qualified, k.arrays, k.number + 1, k.aliases, k.matches)
            ELSE format('DELETE FROM %s AS t USING unnest(%s) AS u(%s) WHERE %s',
                        t.qualified, k.arrays, k.aliases, k.matches) END AS delete_sql,
       format('DELETE FROM %s', t.qualified) AS clear_sql
  FROM tables t JOIN column_texts c USING (table_id) JOIN key_texts k USING (table_id)
