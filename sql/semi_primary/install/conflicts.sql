-- On which keys transactions of this semi-primary were lost lately, and what helps: psp.conflicts.

-- As the daemon writes it every few seconds: psp.proto.LossReport as JSON. No row: nothing was lost since a crash of PostgreSQL.
CREATE UNLOGGED TABLE psp.loss_report (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    updated_at timestamptz NOT NULL,
    report     jsonb NOT NULL,
    tables     jsonb NOT NULL,  -- which of these it names, by number: [schema, name] as in the report
    statements jsonb NOT NULL   -- query_id: the statement's first words
) WITH (fillfactor = 50);

-- The first words of the statements that a report names, where the extension pg_stat_statements is in this database. They have no literals. For the
-- daemon: to read all texts takes long, and it reads them only when there is news.
CREATE FUNCTION psp.statement_words(report jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place CONSTANT text := (SELECT format('%I.pg_stat_statements', n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
                             WHERE e.extname = 'pg_stat_statements');
    ids CONSTANT bigint[] := (SELECT array_agg(DISTINCT k::bigint) FROM jsonb_path_query(report, '$.windows[*].keys[*].query_id') q(id), LATERAL (SELECT q.id #>> '{}') i(k)
                               WHERE k <> '0');
    words jsonb;
BEGIN
    IF place IS NULL OR ids IS NULL THEN RETURN '{}'; END IF;
    EXECUTE format($q$
        SELECT jsonb_object_agg(s.queryid, left(regexp_replace(s.query, '\s+', ' ', 'g'), 120))
          FROM (SELECT DISTINCT ON (t.queryid) t.queryid, t.query FROM %s t
                 WHERE t.queryid = ANY ($1) AND t.dbid = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                 ORDER BY t.queryid, t.userid) s$q$, place) INTO words USING ids;
    RETURN coalesce(words, '{}');
EXCEPTION WHEN object_not_in_prerequisite_state OR insufficient_privilege THEN  -- it is not loaded, or not for this role
    RETURN '{}';
END $$;

-- `kind`: row, unique value, exclusion, foreign key, read, advisory lock or schema change. A key has values of a row. Who may not read the table, or only some of its rows, sees the table only.
-- (By the table's number: another table may have got its name since.)
CREATE VIEW psp.conflicts AS
SELECT make_interval(secs => (w.value ->> 'seconds')::integer)      AS within,
       k.rank::integer,
       nullif(concat_ws('.', nullif(t.schema_name, ''), nullif(t.table_name, '')), '') AS table_name,
       CASE WHEN r.may_see THEN nullif(t.key, '') END                  AS key,
       CASE WHEN r.excludes THEN 'exclusion' ELSE replace(lower(substr(t.kind, 6)), '_', ' ') END AS kind,
       t.losses,
       (w.value ->> 'error_max')::bigint                               AS losses_error,
       round(t.losses * 100.0 / nullif((w.value ->> 'losses')::bigint, 0), 1) AS percent,
       t.spent_ms                                                      AS waited_ms,
       (SELECT string_agg(format('%s: %s', x ->> 'name', x ->> 'losses'), ', ' ORDER BY (x ->> 'losses')::bigint DESC, x ->> 'name')
          FROM jsonb_array_elements(t.winners) x)                      AS winners,
       (SELECT string_agg(x, ', ') FROM jsonb_array_elements_text(t.changed_columns) x) AS columns,
       nullif(t.index_name, '')                                        AS index_name,
       t.remedy,
       p.updated_at,
       nullif(t.query_id, 0)                                           AS query_id,
       CASE WHEN pg_has_role('pg_read_all_stats', 'USAGE') OR has_table_privilege('psp.identity', 'SELECT')
            THEN p.statements ->> t.query_id::text END                 AS statement
  FROM psp.loss_report p
 CROSS JOIN jsonb_array_elements(p.report -> 'windows') w
 CROSS JOIN jsonb_array_elements(w.value -> 'keys') WITH ORDINALITY k(value, rank)
 CROSS JOIN jsonb_to_record(k.value) t(schema_name text, table_name text, index_name text, key text, kind text, losses bigint,
                                       spent_ms bigint, winners jsonb, changed_columns jsonb, remedy text, query_id bigint)
  LEFT JOIN jsonb_each(p.tables) named(number, name) ON named.name = jsonb_build_array(t.schema_name, t.table_name)
  LEFT JOIN psp.tables o ON o.table_id = named.number::integer
  LEFT JOIN pg_namespace n ON n.nspname = o.schema_name
  LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = o.table_name
 CROSS JOIN LATERAL (
    SELECT pg_has_role('pg_monitor', 'USAGE') OR has_table_privilege('psp.identity', 'SELECT')
           OR coalesce(has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') AND NOT row_security_active(c.oid), false) AS may_see,
           EXISTS (SELECT FROM pg_constraint x WHERE x.conrelid = c.oid AND x.conname = t.index_name AND x.contype = 'x') AS excludes
 ) r
 WHERE p.updated_at + make_interval(secs => (w.value ->> 'seconds')::integer + 60) > clock_timestamp();
