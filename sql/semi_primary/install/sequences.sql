-- Sequences that have left their class: by setval, which no trigger sees. (ALTER SEQUENCE … RESTART is refused by
-- the guard, ddl_checks.sql.) Each SP draws first + stride * n; psp.sequences has the strides.

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

-- The daemon calls this every few seconds, and now and then for sequences too that nothing has been drawn from:
-- these cost a query each. Returns how many had left their class.
CREATE FUNCTION psp.align_sequences(undrawn boolean) RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(*) FILTER (WHERE psp.align_sequence(s.sequence, s.first, s.stride))::integer
      FROM (SELECT c.oid AS sequence, q.stride, q.base + q.increment * i.sp_id::numeric AS first,
                   pg_sequence_last_value(c.oid) AS drawn
              FROM psp.sequences q CROSS JOIN psp.identity i
              JOIN pg_namespace n ON n.nspname = q.schema_name
              JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = q.sequence_name AND c.relkind = 'S') s
     WHERE CASE WHEN s.drawn IS NULL THEN undrawn ELSE (s.drawn - s.first) % s.stride <> 0 END
$$;

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
                 AND d.deptype IN ('a', 'i')) t ON true) s
 WHERE (s.last - s.drawn) * 10 * sign(s.stride) < (s.last - s.began) * sign(s.stride);
