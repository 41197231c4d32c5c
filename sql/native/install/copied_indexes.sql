-- Indexes that PostgreSQL makes as copies of those that one semi-primary has alone (local_indexes.sql): for a table that is made LIKE another one,
-- and for a new partition. They are local, too, and what else the table has gets the names that it gets where they are not made.

-- Those that a statement has made, and that are not known as local.
CREATE VIEW psp.new_indexes AS
SELECT i.indexrelid AS index, i.indrelid AS relation, c.relname AS name, i.indisunique AS is_unique,
       regexp_replace(c.relname, '[0-9]+$', '') AS base  -- without the number that PostgreSQL may have put to it
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
 WHERE age(i.xmin) <= age(pg_current_xact_id()::xid) AND psp.is_own_write(i.xmin) AND c.relnamespace <> 'pg_toast'::regnamespace
   AND NOT EXISTS (SELECT FROM psp.local_indexes l WHERE l.index = i.indexrelid)
   AND NOT EXISTS (SELECT FROM psp.touched_relations t WHERE (t.xid, t.relation, t.how) = (pg_current_xact_id(), i.indexrelid, 'older'));

-- Before the statement: those of this transaction that are there.
CREATE FUNCTION psp.note_older_indexes() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO psp.touched_relations SELECT pg_current_xact_id(), n.index, 'older' FROM psp.new_indexes n
$$;

-- What an index has in common with its copies.
CREATE FUNCTION psp.shape_of_index(index oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT concat_ws('/', c.relam, i.indnkeyatts, i.indclass, i.indcollation, i.indoption, pg_get_expr(i.indpred, i.indrelid),
                             (SELECT string_agg(pg_get_indexdef(i.indexrelid, n, false), ',' ORDER BY n) FROM generate_series(1, i.indnatts) n))
              FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indexrelid = index);
END $$;

-- Gives the indexes of a table that have got the next numbers the names that are free now.
CREATE FUNCTION psp.take_free_names(table_of_them oid, free name[], statement text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
DECLARE
    words CONSTANT text[] := psp.words_of(statement);
    taker record;
BEGIN
    FOR taker IN
        WITH takers AS (
            SELECT n.index, n.name, n.base FROM psp.new_indexes n
             WHERE n.relation = table_of_them AND NOT psp.is_named(n.name, statement, words)
        ), names AS (
            SELECT t.name, t.base FROM takers t UNION ALL SELECT f.name, regexp_replace(f.name, '[0-9]+$', '') FROM unnest(free) f(name)
        )
        SELECT t.index, n.name
          FROM (SELECT t.*, row_number() OVER (PARTITION BY t.base ORDER BY length(t.name), t.name) AS nth FROM takers t) t
          JOIN (SELECT n.*, row_number() OVER (PARTITION BY n.base ORDER BY length(n.name), n.name) AS nth FROM names n) n USING (base, nth)
         WHERE t.name <> n.name ORDER BY base, nth
    LOOP
        PERFORM psp.run_own_command(format('ALTER INDEX %s RENAME TO %I', taker.index::regclass, taker.name));
    END LOOP;
END $$;

CREATE FUNCTION psp.note_copied_indexes(statement text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
DECLARE
    words CONSTANT text[] := psp.words_of(statement);
    copy  record;
    made  record;
BEGIN
    FOR made IN
        SELECT k.relation, array_agg(k.index ORDER BY k.index) AS indexes, array_agg(k.name) AS names
          FROM (SELECT n.index, n.relation, n.name
                  FROM psp.new_indexes n JOIN pg_inherits h ON h.inhrelid = n.index JOIN psp.indexes_alone a ON a.index = h.inhparent
                UNION ALL
                SELECT o.index, o.relation, o.name
                  FROM (SELECT n.*, s.shape, row_number() OVER (PARTITION BY n.relation, s.shape ORDER BY n.index) AS nth
                          FROM psp.new_indexes n CROSS JOIN psp.shape_of_index(n.index) s(shape)
                         WHERE statement ~* '\mlike\M' AND NOT n.is_unique AND NOT psp.is_named(n.name, statement, words)) o
                 WHERE o.nth <= (SELECT count(*) FILTER (WHERE t.oid <> o.relation AND psp.is_named(t.relname, statement, words))
                                        - count(*) FILTER (WHERE t.oid = o.relation)  -- copies that are known already
                                   FROM psp.indexes_alone a JOIN pg_class t ON t.oid = a.relation WHERE psp.shape_of_index(a.index) = o.shape)) k
         GROUP BY k.relation ORDER BY k.relation
    LOOP
        FOR copy IN SELECT c.oid, c.relname FROM pg_class c WHERE c.oid = ANY (made.indexes) LOOP
            PERFORM psp.run_own_command(format('ALTER INDEX %s RENAME TO %I', copy.oid::regclass, psp.name_aside(copy.oid, copy.relname)));
            INSERT INTO psp.local_indexes (index, relation, name) VALUES (copy.oid, made.relation, psp.name_aside(copy.oid, copy.relname));
        END LOOP;
        PERFORM psp.take_free_names(made.relation, made.names, statement);
    END LOOP;
END $$;

-- ---- of indexes that jobs make, or a session: other servers may have made fewer of them, or more, or in another order, which numbers the names
-- of the copies. (Not those of constraints, whose names end otherwise.)

-- What makes an index, and its comment.
CREATE FUNCTION psp.statements_of_index(index oid, name text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
BEGIN
    RETURN pg_get_indexdef(index) || coalesce(format('; COMMENT ON INDEX %s IS %L', name, obj_description(index, 'pg_class')), '');
END $$;

-- The indexes of tables, with their definitions: what CREATE TABLE … LIKE has copied. Null: none of these is a table.
CREATE FUNCTION psp.copied_indexes(tables oid[]) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
BEGIN
    RETURN (SELECT jsonb_object_agg(format('%I.%I', n.nspname, t.relname),
                                    (SELECT coalesce(jsonb_object_agg(i.name, psp.statements_of_index(c.oid, i.name)), '{}')
                                       FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid CROSS JOIN format('%I.%I', n.nspname, c.relname) i(name)
                                      WHERE x.indrelid = t.oid
                                        AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = c.oid AND k.contype IN ('p', 'u', 'x'))
                                        AND NOT EXISTS (SELECT FROM psp.local_indexes l WHERE l.index = c.oid)))
              FROM pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace
             WHERE t.oid = ANY (tables) AND t.relkind IN ('r', 'p') AND t.relpersistence <> 't');
END $$;

-- Where a statement of a message has run first, and made these objects. Null: it has copied nothing.
CREATE FUNCTION psp.note_copies(message text, objects oid[]) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
BEGIN
    IF message !~* '\mincluding\M' THEN
        RETURN NULL;
    END IF;
    PERFORM psp.note_copied_indexes(message);  -- of local indexes: not told
    RETURN ARRAY[psp.copied_indexes(objects)::text];
END $$;

-- Where the statement has arrived and run: the tables get the indexes that they have got where it ran first. They have no rows yet.
CREATE FUNCTION psp.take_copied_indexes(call text, copied jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    here CONSTANT jsonb := psp.copied_indexes(ARRAY(SELECT to_regclass(t.name)::oid FROM jsonb_object_keys(copied) t(name)));
    c    record;
BEGIN
    FOR c IN SELECT i.key AS name FROM jsonb_each(here) t CROSS JOIN jsonb_each_text(t.value) i
              WHERE copied -> t.key ->> i.key IS DISTINCT FROM i.value LOOP
        EXECUTE call USING 'DROP INDEX ' || c.name;
    END LOOP;
    FOR c IN SELECT i.value AS definition FROM jsonb_each(copied) t CROSS JOIN jsonb_each_text(t.value) i
              WHERE here -> t.key ->> i.key IS DISTINCT FROM i.value LOOP
        EXECUTE call USING c.definition;
    END LOOP;
END $$;

CREATE FUNCTION psp.copies_indexes(statement text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    words CONSTANT text[] := psp.words_of(statement);
BEGIN
    RETURN words @> '{create,like,including}' AND words && '{all,indexes}';
END $$;

-- A text of several statements goes before it is known what it copies.
CREATE FUNCTION psp.check_no_copies(statement text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    words CONSTANT text[] := psp.words_of(statement);
    found text;
BEGIN
    IF psp.copies_indexes(statement) THEN
        SELECT min(o.label) INTO found
          FROM (SELECT j.relation, j.label FROM psp.jobs_of_indexes j UNION ALL SELECT u.relation, u.label FROM psp.unfinished_indexes() u) o
          JOIN pg_class t ON t.oid = o.relation WHERE psp.is_named(t.relname, statement, words);
        IF found IS NOT NULL THEN
            PERFORM psp.refuse_statement(format('copies no indexes such as %s, which other semi-primaries need not have', found),
                                         'Run the CREATE TABLE by a statement of its own.');
        END IF;
    END IF;
END $$;

-- After a statement of a schema change. PostgreSQL makes an index of a partition a part of one of the whole: where only one of the two is
-- local, the other would have another name here, or could not be dropped.
CREATE FUNCTION psp.keep_local_indexes_apart(statement text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    joined record;
    remedy text := 'SET psp.schema_changes = local; DROP INDEX %s.';
BEGIN
    IF NOT EXISTS (SELECT FROM psp.local_indexes) THEN
        RETURN;
    END IF;
    PERFORM psp.note_copied_indexes(statement);
    SELECT a.index::regclass AS here, a.is_of_job, a.is_leftover, a.schema, a.name, h.inhparent::regclass AS whole, h.inhrelid::regclass AS part INTO joined
      FROM pg_inherits h JOIN psp.indexes_apart a ON a.index IN (h.inhrelid, h.inhparent)
     WHERE psp.is_own_write(h.xmin)
       AND (SELECT count(*) FROM psp.indexes_apart b WHERE b.index IN (h.inhrelid, h.inhparent)) = 1
     LIMIT 1;
    IF FOUND THEN
        IF EXISTS (SELECT FROM psp.jobs_of_indexes j WHERE (j.schema, j.name) = (joined.schema, joined.name) AND j.state IN ('waiting', 'running')) THEN
            remedy := 'psp.schema_jobs tells its state. When the job has ended: DROP INDEX %s.';
        ELSIF joined.is_of_job OR joined.is_leftover THEN
            remedy := 'DROP INDEX %s. The statement makes an index of its own.';
        END IF;
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = format('psp: index %s would become a part of %s', joined.part, joined.whole),
            DETAIL = format(CASE WHEN joined.is_of_job THEN 'A job makes %s, and other semi-primaries need not have it yet.'
                                 ELSE 'This semi-primary has %s alone.' END, joined.here),
            HINT = format(remedy, joined.here);
    END IF;
END $$;
