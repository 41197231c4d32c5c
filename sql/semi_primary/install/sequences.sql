-- Sequences that stand at a number of another SP, or at one that is taken. Each SP draws first + stride * n; psp.sequences has
-- the strides. A sequence leaves its class by setval, which no trigger sees. (ALTER SEQUENCE … RESTART is refused by the guard,
-- ddl_checks.sql.)

-- Gives a sequence the stride by which this SP draws base + increment * (sp_id + slots * n).
CREATE FUNCTION psp.stride_sequence(sequence regclass, base bigint, increment bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place record;
BEGIN
    SELECT i.sp_id, i.slots * increment AS stride, n.nspname, c.relname INTO STRICT place
      FROM psp.identity i CROSS JOIN pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = sequence;
    EXECUTE format('ALTER SEQUENCE %s INCREMENT BY %s RESTART WITH %s', sequence, place.stride, base + increment * place.sp_id);
    INSERT INTO psp.sequences (schema_name, sequence_name, base, increment, stride, relation)
    VALUES (place.nspname, place.relname, base, increment, place.stride, sequence);
END $$;

-- Whether the sequence would draw numbers of other SPs. Not while psp.align_sequences moves it.
CREATE FUNCTION psp.is_out_of_class(sequence regclass) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place record;
    drawn bigint;
BEGIN
    SELECT q.stride, q.base + q.increment * i.sp_id::numeric AS first, q.moved_by INTO place
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN psp.sequences q ON (q.schema_name, q.sequence_name) = (n.nspname, c.relname)
     CROSS JOIN psp.identity i
     WHERE c.oid = sequence;
    IF NOT FOUND OR place.moved_by = pg_current_xact_id_if_assigned() THEN
        RETURN false;
    END IF;
    EXECUTE format('SELECT last_value FROM %s', sequence) INTO drawn;
    RETURN (drawn - place.first) % place.stride <> 0;
END $$;

-- Moves one sequence on to the next number of its class. Returns false if it is in its class, or if somebody who
-- has drawn from it is in a transaction: then the next call tries again.
CREATE FUNCTION psp.align_sequence(sequence regclass, first numeric, stride bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $$
DECLARE
    limits record;
    drawn  record;
    target numeric;
    last   numeric;  -- the last number of the class
BEGIN
    IF NOT psp.is_out_of_class(sequence) THEN
        RETURN false;
    END IF;
    UPDATE psp.sequences q SET moved_by = pg_current_xact_id()
     WHERE to_regclass(format('%I.%I', q.schema_name, q.sequence_name)) = sequence;
    EXECUTE format('ALTER SEQUENCE %s INCREMENT BY %s', sequence, stride);  -- for its lock
    EXECUTE format('SELECT last_value, is_called FROM %s', sequence) INTO drawn;
    SELECT seqmin, seqmax INTO limits FROM pg_sequence WHERE seqrelid = sequence;
    target := first + stride * CASE WHEN drawn.is_called THEN floor((drawn.last_value - first) / stride) + 1
                                    ELSE ceil((drawn.last_value - first) / stride) END;
    last := CASE WHEN stride > 0 THEN limits.seqmax ELSE limits.seqmin END;
    last := first + stride * floor((last - first) / stride);
    IF target BETWEEN limits.seqmin AND limits.seqmax THEN
        PERFORM setval(sequence, target::bigint, false);
    ELSE
        PERFORM setval(sequence, last::bigint, true);  -- it is at its end
    END IF;
    RAISE LOG 'psp: sequence % stood at %, which is no number of this semi-primary: it goes on at %',
        sequence, drawn.last_value, target;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

-- Relations that somebody changes or drops. Who reads many sequences leaves these out: each would have to be waited for while the locks of
-- those before are kept, which is a deadlock with a migration. (What is locked a moment later is waited for until lock_timeout.)
CREATE VIEW psp.relations_in_change AS
SELECT l.relation FROM pg_locks l JOIN pg_database d ON d.oid = l.database
 WHERE d.datname = current_database() AND l.pid <> pg_backend_pid()
   AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock');

-- The daemon calls this every few seconds, and now and then for sequences too that nothing has been drawn from:
-- these cost a query each. Returns how many had left their class.
CREATE FUNCTION psp.align_sequences(undrawn boolean) RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $$
    SELECT count(*) FILTER (WHERE psp.align_sequence(s.sequence, s.first, s.stride))::integer
      FROM (SELECT c.oid AS sequence, q.stride, q.base + q.increment * i.sp_id::numeric AS first,
                   pg_sequence_last_value(c.oid) AS drawn
              FROM psp.sequences q CROSS JOIN psp.identity i
              JOIN pg_namespace n ON n.nspname = q.schema_name
              JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = q.sequence_name AND c.relkind = 'S'
             WHERE c.oid NOT IN (SELECT h.relation FROM psp.relations_in_change h WHERE h.relation IS NOT NULL)) s
     WHERE CASE WHEN s.drawn IS NULL THEN undrawn ELSE (s.drawn - s.first) % s.stride <> 0 END
$$;

-- Moves a strided sequence on to `target`, a number of its class, and never back. Returns false if it is there already. The
-- sequence belongs to the application, so the function is a superuser's. Nothing in it runs code of a user's.
-- A crash gives back few numbers: these are drawn, beside all others who draw. On a long way the sequence is set, which needs its lock: nobody
-- who has drawn from it may be in a transaction.
CREATE FUNCTION psp.move_sequence(sequence regclass, stride bigint, target bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    numbers_max CONSTANT integer := 100000;
    drawn bigint;
BEGIN
    EXECUTE format('SELECT last_value FROM %s', sequence) INTO drawn;
    IF (target - drawn::numeric) * sign(stride) <= 0 THEN
        RETURN false;
    ELSIF (target - drawn::numeric) / stride <= numbers_max THEN
        LOOP
            drawn := nextval(sequence);
            EXIT WHEN (target - drawn::numeric) * sign(stride) <= 0;
        END LOOP;
        RAISE LOG 'psp: sequence % moved to %', sequence, drawn;
        RETURN true;
    END IF;
    EXECUTE format('ALTER SEQUENCE %s INCREMENT BY %s', sequence, stride);  -- for its lock
    EXECUTE format('SELECT last_value FROM %s', sequence) INTO drawn;
    IF (target - drawn::numeric) * sign(stride) <= 0 THEN
        RETURN false;
    END IF;
    PERFORM setval(sequence, target);
    RAISE LOG 'psp: sequence % moved from % to %', sequence, drawn, target;
    RETURN true;
END $$;

-- A superuser's: the daemon may not read the application's sequences. NULL while nothing has been drawn.
CREATE FUNCTION psp.sequence_stands_at(sequence regclass) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'SELECT pg_sequence_last_value($1)';

-- Moves every strided sequence that a column owns or has as its default past the largest value in the column, within
-- this SP's own class of values, and never back. After a crash PostgreSQL may hand out numbers again whose rows the
-- primary has kept. The daemon calls it when it has caught up. Returns how many had to move.
-- `following` is for now and then, as rows of other semi-primaries may have brought numbers that nobody drew: it reads only columns with an
-- index, and goes no farther than a tenth of what is left, since one row with a number near the end must not use the sequence up.
-- Values at the sequence's very end do not count: past them it could not go. To move far, it keeps others from drawing
-- for a moment; when it cannot have that soon it fails with lock_not_available, and is called again.
-- The column is read as the table's owner (psp.apply_furthest_N): the planner may call functions in the predicates of indexes.
CREATE FUNCTION psp.advance_sequences(following boolean DEFAULT false) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $$
DECLARE
    s       record;
    first   numeric;  -- this SP's first value
    extreme numeric;  -- the value in the table that is furthest along
    target  bigint;   -- the last value of the own class up to there
    moved   integer := 0;
BEGIN
    FOR s IN
        WITH strided AS (
            SELECT q.*, c.oid AS sequence FROM psp.sequences q
              JOIN pg_namespace n ON n.nspname = q.schema_name JOIN pg_class c ON (c.relnamespace, c.relname) = (n.oid, q.sequence_name)
        ), captured AS (
            SELECT t.table_id, c.oid AS relation FROM psp.tables t
              JOIN pg_namespace n ON n.nspname = t.schema_name
              JOIN pg_class c ON (c.relnamespace, c.relname) = (n.oid, coalesce(t.persistent, t.table_name))
        ), feeds AS (
            SELECT objid AS sequence, refobjid AS relation, refobjsubid AS attnum FROM pg_depend
             WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass AND deptype IN ('a', 'i')
            UNION
            SELECT d.refobjid, f.adrelid, f.adnum
              FROM pg_depend d JOIN pg_attrdef f ON f.oid = d.objid
             WHERE d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_class'::regclass
        )
        SELECT q.base, q.increment, q.stride, q.sequence, f.relation::regclass AS relation, a.attname AS name, i.sp_id, c.table_id,
               EXISTS (SELECT FROM pg_index x WHERE x.indrelid = f.relation AND x.indkey[0] = f.attnum AND x.indisvalid
                       AND x.indpred IS NULL) AS indexed,
               e.last - q.stride - CASE WHEN following
                                        THEN div(9 * (e.last - coalesce(psp.sequence_stands_at(q.sequence), p.seqstart)), 10) ELSE 0 END AS until
          FROM strided q
          JOIN feeds f ON f.sequence = q.sequence
          JOIN pg_sequence p ON p.seqrelid = q.sequence
         CROSS JOIN LATERAL (SELECT CASE WHEN q.stride > 0 THEN p.seqmax ELSE p.seqmin END::numeric AS last) e
          JOIN pg_attribute a ON a.attrelid = f.relation AND a.attnum = f.attnum AND NOT a.attisdropped
          JOIN pg_type t ON t.oid = a.atttypid
          JOIN captured c ON c.relation = coalesce(pg_partition_root(f.relation), f.relation)
         CROSS JOIN psp.identity i
         WHERE coalesce(nullif(t.typbasetype, 0), t.oid) IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'numeric'::regtype)
    LOOP
        CONTINUE WHEN following AND NOT s.indexed;
        IF NOT s.indexed THEN
            RAISE LOG 'psp: %.% has no index: the whole table is read for sequence %', s.relation, s.name, s.sequence;
        END IF;
        EXECUTE format('SELECT psp.apply_furthest_%s(%L, %L, %L, %L)', s.table_id, s.name, CASE WHEN s.stride > 0 THEN 'max' ELSE 'min' END,
                       CASE WHEN s.stride > 0 THEN '<=' ELSE '>=' END, s.until) INTO extreme;
        first := s.base + s.increment * s.sp_id::numeric;
        CONTINUE WHEN extreme IS NULL;
        target := first + floor((extreme - first) / s.stride) * s.stride;
        moved := moved + psp.move_sequence(s.sequence, s.stride, target)::integer;
    END LOOP;
    RETURN moved;
END $$;

-- Strided sequences with less than a tenth of this SP's numbers left; a column's type may end before its sequence.
CREATE VIEW psp.sequences_near_their_end AS
SELECT s.schema_name, s.sequence_name, greatest(floor((s.last - s.drawn) / s.stride), 0) AS left_over
  FROM (SELECT q.*, q.base + q.increment * i.sp_id::numeric AS first,
               coalesce(pg_sequence_last_value(c.oid), q.base + q.increment * i.sp_id::numeric) AS drawn,
               CASE WHEN q.stride > 0
                    THEN least(p.seqmax, CASE t.column_type WHEN 'int2'::regtype THEN 32767
                                                            WHEN 'int4'::regtype THEN 2147483647 END)
                    ELSE greatest(p.seqmin, CASE t.column_type WHEN 'int2'::regtype THEN -32768
                                                               WHEN 'int4'::regtype THEN -2147483648 END)
                    END::numeric AS last,
               CASE WHEN q.stride > 0 THEN p.seqmin ELSE p.seqmax END AS began
          FROM psp.sequences q CROSS JOIN psp.identity i
          JOIN pg_namespace n ON n.nspname = q.schema_name
          JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = q.sequence_name AND c.relkind = 'S'
          JOIN pg_sequence p ON p.seqrelid = c.oid
          LEFT JOIN LATERAL (
              SELECT a.atttypid::regtype AS column_type FROM pg_depend d
                JOIN pg_attribute a ON (a.attrelid, a.attnum) = (d.refobjid, d.refobjsubid)
               WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.refclassid = 'pg_class'::regclass
                 AND d.deptype IN ('a', 'i')) t ON true
         WHERE c.oid NOT IN (SELECT h.relation FROM psp.relations_in_change h WHERE h.relation IS NOT NULL)) s
 WHERE (s.last - s.drawn) * 10 * sign(s.stride) < (s.last - s.began) * sign(s.stride);
