-- The single checks of the guard against schema changes (ddl_guard.sql). Each raises 0A000 with what is wrong.

-- The transaction in which psp itself changes something (sql/native/install/create_capture.sql), or runs a statement of a schema
-- change (schema_history.sql there), while it does.
CREATE UNLOGGED TABLE psp.own_commands (
    xid       xid8 PRIMARY KEY,
    statement text NOT NULL  -- its text, or a message with it; empty: psp's own command
);

-- At a server that joins each statement runs in a transaction of its own, so the key of one statement's table may come in a later one.
CREATE FUNCTION psp.waits_for_key(relation oid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM psp.tables_without_key t
                    WHERE (t.xid = pg_current_xact_id_if_assigned() OR (SELECT i.joining FROM psp.identity i))
                      AND t.relation IN (waits_for_key.relation, pg_partition_root(waits_for_key.relation)));
END $$;

CREATE FUNCTION psp.is_stranger(relation oid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM psp.strangers s
                    WHERE (s.xid, s.relation) = (pg_current_xact_id_if_assigned(), is_stranger.relation));
END $$;

CREATE FUNCTION psp.begin_own_commands(statement text DEFAULT '') RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO psp.own_commands (xid, statement) VALUES (pg_current_xact_id(), statement)
$$;

CREATE FUNCTION psp.end_own_commands() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM psp.own_commands WHERE xid = pg_current_xact_id()
$$;

CREATE FUNCTION psp.is_own_command() RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM psp.own_commands c WHERE c.xid = pg_current_xact_id_if_assigned() AND c.statement = '');
END $$;

-- A statement of a schema change: what it may do with tables and sequences is judged when it has run (psp.follow_changes).
CREATE FUNCTION psp.is_schema_change() RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM psp.own_commands c WHERE c.xid = pg_current_xact_id_if_assigned() AND c.statement <> '');
END $$;

CREATE FUNCTION psp.refuse_ddl(
    object text, command text,
    detail text DEFAULT 'The change would reach this semi-primary only.',
    hint text DEFAULT psp.way_to_change()
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'feature_not_supported',
        MESSAGE = format('psp: %s of %s is not supported while the database is part of a cluster',
                         command, object),
        DETAIL = detail,
        HINT = hint;
END $$;

-- One has been made, perhaps with others for partitions. What an older job made under its name is gone.
CREATE FUNCTION psp.note_local_index(made oid, relation oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO psp.local_indexes (index)
    SELECT made UNION SELECT t.relid FROM pg_partition_tree(made) t JOIN pg_index i ON i.indexrelid = t.relid
                       WHERE psp.is_own_write(i.xmin)
        ON CONFLICT DO NOTHING;
    UPDATE psp.jobs j SET index_name = NULL FROM pg_class c JOIN pg_class t USING (relnamespace)
     WHERE c.oid = made AND (t.oid, c.relname, 'done') = (j.relation, j.index_name, j.state);
    DELETE FROM psp.lost_indexes l USING pg_class c WHERE c.oid = made AND (l.relation, l.name) = (note_local_index.relation, c.relname);
END $$;

-- Another object has been made here only. A function that is replaced was there before: its OID is older than the command (psp.on_ddl_start).
CREATE FUNCTION psp.note_local_object(class oid, object oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF class = 'pg_proc'::regclass AND object::bigint <= nullif(current_setting('psp.newest_oid', true), '')::bigint
       OR class = 'pg_class'::regclass AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = object AND c.relkind NOT IN ('i', 'I')
                                                          AND psp.is_own_write((SELECT t.xmin FROM pg_type t WHERE t.oid = c.reltype)) IS NOT FALSE) THEN
        RETURN;
    END IF;
    INSERT INTO psp.local_objects (class, object) VALUES (class, object) ON CONFLICT DO NOTHING;
END $$;

-- PostgreSQL makes an index again, as another object, when its column gets another type, and by REINDEX CONCURRENTLY. What this one has made
-- is not valid until it gets the index's name: then it is a local one if the older index was.
CREATE FUNCTION psp.follow_local_indexes() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM psp.local_indexes l USING pg_index i JOIN pg_class c ON c.oid = i.indexrelid
     WHERE i.indexrelid = l.index AND l.is_leftover AND i.indisvalid AND c.relname <> l.name
       AND NOT EXISTS (SELECT FROM psp.local_indexes o WHERE (o.relation, o.name) = (i.indrelid, c.relname) AND NOT o.is_leftover);
    WITH gone AS (
        DELETE FROM psp.local_indexes l WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = l.index) RETURNING *)
    INSERT INTO psp.local_indexes
    SELECT c.oid, g.is_leftover, g.relation, g.name, g.old_name
      FROM gone g JOIN (pg_index i JOIN pg_class c ON c.oid = i.indexrelid) ON (i.indrelid, c.relname) = (g.relation, g.name)
        ON CONFLICT DO NOTHING;
    UPDATE psp.local_indexes l SET relation = i.indrelid, name = c.relname, is_leftover = l.is_leftover AND NOT i.indisvalid
      FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
     WHERE i.indexrelid = l.index AND ((l.relation, l.name) IS DISTINCT FROM (i.indrelid, c.relname) OR l.is_leftover AND i.indisvalid);
END $$;

-- Whether this semi-primary has an index alone. (One that a job has made, others have or get.)
CREATE FUNCTION psp.is_index_alone(index oid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM psp.local_indexes l JOIN pg_index i ON i.indexrelid = l.index JOIN pg_class c ON c.oid = l.index
                    WHERE l.index = is_index_alone.index
                      AND NOT EXISTS (SELECT FROM psp.jobs j WHERE (j.relation, j.index_name) = (i.indrelid, c.relname)));
END $$;

-- PostgreSQL takes an index of a partition for a part of one of the whole. Where this semi-primary has only one of the two alone, the other one
-- would go with it, or a schema change could not drop it.
CREATE FUNCTION psp.check_parts(index oid, object text, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part record;
BEGIN
    SELECT h.inhrelid::regclass AS name, i.indrelid::regclass AS relation INTO part
      FROM pg_inherits h JOIN pg_partition_tree(index) t ON t.relid = h.inhrelid JOIN pg_index i ON i.indexrelid = h.inhrelid
     WHERE psp.is_own_write(h.xmin) AND psp.is_index_alone(h.inhrelid) <> psp.is_index_alone(h.inhparent) LIMIT 1;
    IF FOUND THEN
        PERFORM psp.refuse_ddl(object, command, format('Index %s, of %s, would become a part. This semi-primary has only one of the two alone.',
                                                       part.name, part.relation),
                               'Make an index of each partition by itself, where there is none.');
    END IF;
END $$;

-- A schema change that names such an index could not run at the other servers.
CREATE FUNCTION psp.check_local_index(index oid, object text, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM psp.local_indexes l WHERE l.index = check_local_index.index) THEN
        PERFORM psp.refuse_ddl(object, command, 'The index was made at this semi-primary only.',
                               'SET psp.schema_changes = local; or DROP INDEX.');
    END IF;
END $$;

CREATE FUNCTION psp.refuse_partition(object text, command text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT psp.refuse_ddl(
        object, command,
        'The partition would exist at this semi-primary only, and others have no place for its rows.',
        psp.way_to_change())
$$;

CREATE FUNCTION psp.is_captured(relation oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM pg_class c
          JOIN pg_namespace n ON n.oid = c.relnamespace
          JOIN psp.guarded_relations g
            ON g.kind = 'relation' AND (g.schema_name, g.relation_name) = (n.nspname, c.relname)
         WHERE c.oid = relation)
$$;

-- The commit hook talks through dblink, in any schema.
CREATE FUNCTION psp.is_needed_extension(extension text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT extension = 'dblink' AND EXISTS (SELECT FROM psp.identity WHERE mode = 'native')
$$;

-- Temporary tables. A foreign key between them: PostgreSQL empties tables ON COMMIT DELETE ROWS at the very end
-- of COMMIT, and fails then if another table refers to one.
CREATE FUNCTION psp.check_temporary(relation oid, object text, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent
                WHERE i.inhrelid = relation AND p.relpersistence = 'p') THEN
        PERFORM psp.refuse_ddl(
            object, command,
            'The rows of a temporary table would be part of a captured table, and of no other semi-primary''s.',
            'CREATE TEMPORARY TABLE … (LIKE …) makes a table of the same columns.');
    ELSIF EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = relation AND k.contype = 'f') THEN
        PERFORM psp.refuse_ddl(
            object, command,
            'It has a foreign key to a temporary table. If that one has ON COMMIT DELETE ROWS, PostgreSQL fails '
            'at the end of COMMIT, when the primary has committed the transaction already.',
            'Leave out the foreign key, or use unlogged tables.');
    END IF;
END $$;

-- What in an index might refuse a row that another server has taken; null: nothing. The expressions and the
-- predicate may hold only what cannot fail for any row. (A cast by way of the text, COERCEVIAIO, may: only where all are to text, of PostgreSQL's types.)
CREATE FUNCTION psp.risk_of_index(index oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT min(coalesce('function ' || f.oid::regprocedure, lower(m.found[1]), 'an array of arrays'))
      FROM pg_index i
     CROSS JOIN LATERAL concat(i.indexprs::text, i.indpred::text) e(expressions)
     CROSS JOIN LATERAL regexp_matches(e.expressions, '\{(\w+)|:(?:op)?funcid (\d+)|:multidims true', 'g') m(found)
      LEFT JOIN pg_proc f ON f.oid = m.found[2]::oid
     WHERE i.indexrelid = index
       AND CASE WHEN m.found[1] = 'COERCEVIAIO'
                THEN EXISTS (SELECT FROM regexp_matches(e.expressions, ':(resulttype|vartype) (\d+)', 'g') t(found)
                              WHERE t.found[2]::oid <> 25 AND (t.found[1] = 'resulttype' OR t.found[2]::oid >= 16384))
                WHEN m.found[1] IS NOT NULL
                THEN m.found[1] NOT IN (
                     'VAR', 'CONST', 'FUNCEXPR', 'OPEXPR', 'DISTINCTEXPR', 'NULLIFEXPR', 'SCALARARRAYOPEXPR',
                     'BOOLEXPR', 'NULLTEST', 'BOOLEANTEST', 'RELABELTYPE', 'COALESCEEXPR', 'CASEEXPR',
                     'CASEWHEN', 'CASETESTEXPR', 'ARRAYEXPR', 'ARRAYCOERCEEXPR')
                ELSE f.oid IS NULL OR f.oid >= 16384 OR NOT (
                     f.proleakproof
                     OR f.proname ~ '^(numeric|enum|uuid|date|timestamp|timestamptz|jsonb)_(eq|ne|lt|le|gt|ge)$'
                     OR f.proname IN (
                         'lower', 'upper', 'md5', 'length', 'char_length', 'octet_length', 'btrim', 'ltrim',
                         'rtrim', 'jsonb_object_field', 'jsonb_object_field_text', 'json_object_field_text',
                         'jsonb_exists', 'jsonb_contains')) END
$$;

-- Whether there may be a row that the table takes without this index, and not beside it: of its entry PostgreSQL takes no more than a third of a page.
CREATE FUNCTION psp.may_refuse_rows(index oid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN psp.risk_of_index(index) IS NOT NULL
           OR (SELECT bool_or(class >= 16384) FROM pg_index i, unnest(i.indclass) class WHERE i.indexrelid = index)
           OR (SELECT sum(CASE WHEN a.attlen > 0 THEN a.attlen
                               WHEN a.atttypid IN ('varchar'::regtype, 'bpchar'::regtype) AND a.atttypmod > 0
                               THEN 4 * a.atttypmod ELSE 8192 END) > 2048
                 FROM pg_attribute a WHERE a.attrelid = index AND a.attnum > 0);
END $$;

CREATE FUNCTION psp.check_index(index oid, object text, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    risk text := psp.risk_of_index(index);
BEGIN
    IF EXISTS (SELECT FROM pg_index i WHERE i.indexrelid = index AND (i.indisunique OR i.indisexclusion)) THEN
        PERFORM psp.refuse_ddl(object, command,
                               'A unique index at this semi-primary only could refuse rows that are committed.');
    ELSIF risk IS NOT NULL THEN
        PERFORM psp.refuse_ddl(
            object, command,
            format('An index is local to this semi-primary. This one uses %s, which could fail for a row that '
                   'is committed.', risk),
            'Index plain columns. ' || psp.way_to_change());
    END IF;
END $$;

-- Which captured relations the object is part of the definition of: a type, or a function of a CHECK, an index or
-- a generated column, at any depth. A column's default, triggers and policies may change: they
-- decide what is written, not what becomes of rows that are committed.
CREATE FUNCTION psp.reliant_relations(class oid, object oid) RETURNS SETOF oid
LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    WITH RECURSIVE users(classid, objid) AS (
        SELECT class, object
        UNION
        SELECT n.classid, n.objid FROM users u
         CROSS JOIN LATERAL (
            SELECT d.classid, d.objid FROM pg_depend d
             WHERE d.refclassid = u.classid AND d.refobjid = u.objid AND d.deptype IN ('n', 'a', 'i')
               AND d.classid NOT IN (
                   'pg_rewrite'::regclass, 'pg_trigger'::regclass, 'pg_policy'::regclass, 'pg_cast'::regclass,
                   'pg_publication_rel'::regclass, 'pg_statistic_ext'::regclass)
            UNION ALL  -- a domain's CHECK
            SELECT 'pg_type'::regclass, k.contypid FROM pg_constraint k
             WHERE u.classid = 'pg_constraint'::regclass AND k.oid = u.objid AND k.contypid <> 0
            UNION ALL  -- the type of a composite type's relation
            SELECT 'pg_type'::regclass, c.reltype FROM pg_class c
             WHERE u.classid = 'pg_class'::regclass AND c.oid = u.objid AND c.relkind = 'c'
            UNION ALL  -- members of an operator family
            SELECT d.refclassid, d.refobjid FROM pg_depend d
             WHERE u.classid IN ('pg_amproc'::regclass, 'pg_amop'::regclass)
               AND d.classid = u.classid AND d.objid = u.objid
               AND d.refclassid IN ('pg_opclass'::regclass, 'pg_opfamily'::regclass)
         ) n
         -- Of a table only its row type is followed.
         WHERE u.classid <> 'pg_class'::regclass
            OR EXISTS (SELECT FROM pg_class c WHERE c.oid = u.objid
                          AND (c.relkind IN ('c', 'v', 'm') OR c.reltype <> 0 AND n.classid = 'pg_type'::regclass))
    ), relations AS (
        SELECT coalesce(i.indrelid, k.conrelid, f.adrelid,
                        CASE WHEN u.classid = 'pg_class'::regclass THEN u.objid END) AS relation
          FROM users u
          LEFT JOIN pg_index i ON u.classid = 'pg_class'::regclass AND i.indexrelid = u.objid
          LEFT JOIN pg_constraint k
            ON u.classid = 'pg_constraint'::regclass AND k.oid = u.objid AND k.conrelid <> 0
          LEFT JOIN (pg_attrdef f JOIN pg_attribute a
                     ON (a.attrelid, a.attnum) = (f.adrelid, f.adnum) AND a.attgenerated <> '')
            ON u.classid = 'pg_attrdef'::regclass AND f.oid = u.objid
         WHERE (u.classid, u.objid) <> (class, object)
    )
    SELECT DISTINCT relation FROM relations WHERE relation <> 0 AND psp.is_captured(relation)
$$;

-- One of them, for a message; null: there is none.
CREATE FUNCTION psp.relied_on_by(class oid, object oid) RETURNS text
LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT min(r.relation::regclass::text) FROM psp.reliant_relations(class, object) r(relation)
$$;

-- A schema got another name, and with it functions and types on which tables rely: code that has the older name in its text would fail here only.
-- (No event trigger tells a new name from a new owner. A message that can only be the latter is let pass.)
CREATE FUNCTION psp.check_schema_of_code(schema oid, identity text, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    reliant CONSTANT text := (SELECT min(psp.relied_on_by(d.classid, d.objid)) FROM pg_depend d
                               WHERE (d.refclassid, d.refobjid) = ('pg_namespace'::regclass, schema) AND d.classid <> 'pg_class'::regclass);
BEGIN
    IF reliant IS NOT NULL AND current_query() !~* '^\s*alter\s+schema\s+(?:\w+|"[^"]+")\s+owner\s+to\s+(?:\w+|"[^"]+")\s*;?\s*$' THEN
        PERFORM psp.refuse_ddl(identity, command, format('%s relies on a function or type in it.', reliant));
    END IF;
END $$;

-- In a schema change: the tables that rely on the object have changed. Not told here is what can be seen in the tables: their
-- constraints, what is renamed with its schema, and an enum's labels (psp.text_form), to which new ones may come without harm.
CREATE FUNCTION psp.touch_reliant(class oid, object oid, command text) RETURNS void
LANGUAGE plpgsql STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF class IN ('pg_namespace'::regclass, 'pg_extension'::regclass, 'pg_collation'::regclass)
       OR class = 'pg_constraint'::regclass AND EXISTS (SELECT FROM pg_constraint k WHERE k.oid = object AND k.conrelid <> 0)
       OR class = 'pg_type'::regclass AND EXISTS (SELECT FROM pg_type t WHERE t.oid = object AND t.typtype = 'e') THEN
        RETURN;
    END IF;
    INSERT INTO psp.touched_relations
    SELECT pg_current_xact_id(), r.relation, CASE WHEN command ~ '^(ALTER DOMAIN$|CREATE|DROP)' THEN 'replaced' ELSE 'renamed' END
      FROM psp.reliant_relations(class, object) r(relation);
END $$;

-- Captured tables whose updates and deletions PostgreSQL may refuse because of this publication: what it is to publish of a row that is gone
-- is not in the row's replica identity.
CREATE FUNCTION psp.strictly_published(class oid, object oid) RETURNS SETOF oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    RETURN QUERY
    WITH publication AS (
        SELECT object AS id WHERE class = 'pg_publication'::regclass
        UNION ALL SELECT r.prpubid FROM pg_publication_rel r WHERE class = 'pg_publication_rel'::regclass AND r.oid = object
        UNION ALL SELECT n.pnpubid FROM pg_publication_namespace n WHERE class = 'pg_publication_namespace'::regclass AND n.oid = object
    )
    SELECT c.oid FROM publication p CROSS JOIN psp.captured_relations t JOIN pg_class c ON c.oid = t.relation
     WHERE c.relreplident IN ('n', 'i')
        OR EXISTS (SELECT FROM pg_publication_rel r
                    WHERE r.prpubid = p.id AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL)
                      AND (r.prrelid = c.oid OR r.prrelid IN (SELECT a.relid FROM pg_partition_ancestors(c.oid) a)));
END $$;

-- In a schema change: other rows of these tables are refused than before, so those who have written some without this must try again.
CREATE FUNCTION psp.note_stricter(class oid, object oid, relation oid, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO psp.touched_relations
    SELECT pg_current_xact_id(), relation, 'stricter' WHERE command = 'CREATE INDEX' AND psp.may_refuse_rows(object)
    UNION ALL
    SELECT pg_current_xact_id(), p.relation, 'stricter' FROM psp.strictly_published(class, object) p(relation);
END $$;

-- Functions of captured tables' CHECKs, indexes, generated columns and types that the owners of the tables may not call.
CREATE VIEW psp.forbidden_functions AS
WITH used AS MATERIALIZED (
    SELECT p.oid FROM pg_proc p
     WHERE p.proacl IS NOT NULL AND p.oid >= 16384 AND p.pronamespace <> 'psp'::regnamespace
       AND EXISTS (SELECT FROM pg_depend d
                    WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = p.oid
                      AND d.classid NOT IN ('pg_trigger'::regclass, 'pg_rewrite'::regclass, 'pg_policy'::regclass))
)
SELECT u.oid AS function, c.oid AS relation, c.relowner AS owner
  FROM used u CROSS JOIN LATERAL psp.reliant_relations('pg_proc'::regclass, u.oid) r(relation) JOIN pg_class c ON c.oid = r.relation
 WHERE NOT has_function_privilege(c.relowner, u.oid, 'EXECUTE');

CREATE FUNCTION psp.check_owners(command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT p.relation::regclass::text AS label, p.owner::regrole AS owner FROM psp.powerless_owners p LOOP
        PERFORM psp.refuse_ddl(
            r.label, command,
            format('Rows of other servers are written as the owner of the table, %s. The owner needs SELECT, INSERT, '
                   'UPDATE and DELETE on it, and USAGE of its schema.', r.owner),
            'Grant them to the owner.');
    END LOOP;
    FOR r IN SELECT f.function::regprocedure::text AS label, f.relation::regclass AS relation, f.owner::regrole AS owner FROM psp.forbidden_functions f LOOP
        PERFORM psp.refuse_ddl(
            r.label, command, format('Rows of other servers are written as the owner of %s, %s, who must be able to call it.', r.relation, r.owner),
            format('GRANT EXECUTE ON FUNCTION %s TO %s.', r.label, r.owner));
    END LOOP;
END $$;

-- Permanent tables and sequences that are not known, and captured ones that are gone or changed, in all schemas:
-- a command need not tell all that it has changed.
CREATE FUNCTION psp.check_all(command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT * FROM psp.changed_relations LOOP
        PERFORM psp.refuse_ddl(format('%I.%I', r.schema_name, r.relation_name), command);
    END LOOP;
    FOR r IN WITH unknown AS MATERIALIZED (SELECT * FROM psp.unknown_relations)  -- before functions are asked about each one
             SELECT u.kind, u.relation::regclass::text AS label, c.relispartition
               FROM unknown u JOIN pg_class c ON c.oid = u.relation
              WHERE NOT psp.waits_for_key(u.relation) AND NOT psp.is_stranger(u.relation) LOOP
        IF r.relispartition THEN
            PERFORM psp.refuse_partition(r.label, command);
        END IF;
        PERFORM psp.refuse_ddl(
            r.label, command,
            CASE r.kind WHEN 'S' THEN 'Every semi-primary would draw the same numbers from it.'
                        ELSE 'The table would exist here only, and its rows would not be certified.' END,
            'Make it temporary or unlogged, if it may stay local. ' || psp.way_to_change());
    END LOOP;
    FOR r IN SELECT s.child::regclass::text AS child, s.parent::regclass AS parent FROM psp.stray_children s LOOP
        PERFORM psp.refuse_ddl(r.child, command,
                               format('Its rows would be part of %s, and of no other semi-primary''s.', r.parent));
    END LOOP;
END $$;

-- Tables that stay local may refer to one another, but not to rows that other servers delete.
CREATE FUNCTION psp.check_local_references(relation oid, object text, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
                WHERE k.conrelid = relation AND k.contype = 'f' AND c.relpersistence = 'u'
                  AND (psp.is_captured(k.confrelid)
                       OR EXISTS (SELECT FROM psp.unknown_relations u WHERE u.relation = k.confrelid))) THEN  -- a new one
        PERFORM psp.refuse_ddl(
            object, command,
            'Its foreign key would be checked at this semi-primary only: rows of the captured table that '
            'another one deletes would leave their references behind.',
            'Leave out the foreign key, or make the table permanent.');
    END IF;
END $$;

-- A sequence itself, or those of a table's columns.
CREATE FUNCTION psp.sequences_of(relation oid) RETURNS SETOF oid
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid FROM pg_class c WHERE c.oid = relation AND c.relkind = 'S'
    UNION ALL
    SELECT d.objid FROM pg_depend d JOIN pg_class c ON c.oid = d.objid
     WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
       AND d.refobjid = relation AND d.deptype IN ('a', 'i') AND c.relkind = 'S'
$$;

-- A relation that a command has touched: an ordinary one, a sequence, or the table of an index or a trigger.
CREATE FUNCTION psp.check_touched(relation oid, object text, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    sequences CONSTANT oid[] := ARRAY(SELECT psp.sequences_of(relation));
    sequence  regclass;
    changed   record;
BEGIN
    IF relation <> ALL (sequences) AND NOT psp.is_captured(relation) THEN
        PERFORM psp.check_local_references(relation, object, command);
        RETURN;
    ELSIF relation <> ALL (sequences) AND (SELECT version FROM psp.guarded_by) <> psp.major_version() THEN
        PERFORM psp.refuse_ddl(object, command,
                               'PostgreSQL has been upgraded, and the guard has not been renewed yet.',
                               'Start psp-semi-primary.');
    END IF;
    -- CREATE INDEX CONCURRENTLY has given back its lock by now. Functions that write definitions down (pg_get_triggerdef) see what is committed
    -- after the query's snapshot, such as a schema change that arrives in this moment. (A view has no indexes; of views mode's, its owner
    -- may not lock the tables.)
    IF relation <> ALL (sequences) AND NOT EXISTS (SELECT FROM pg_class c WHERE (c.oid, c.relkind) = (relation, 'v')) THEN
        EXECUTE format('LOCK TABLE ONLY %s IN ROW EXCLUSIVE MODE', relation::regclass);
    END IF;
    SELECT * INTO changed FROM psp.changed_objects(ARRAY(SELECT relation UNION SELECT unnest(sequences))) LIMIT 1;
    IF FOUND THEN
        PERFORM psp.refuse_ddl(
            object, command,
            format('It would change the %s %I of %I.%I at this semi-primary only.',
                   changed.kind, changed.name, changed.schema_name, changed.relation_name));
    END IF;
    FOREACH sequence IN ARRAY sequences LOOP
        IF psp.is_out_of_class(sequence) THEN
            PERFORM psp.refuse_ddl(
                object, command,
                format('Sequence %s would draw numbers that belong to other semi-primaries.', sequence));
        END IF;
    END LOOP;
END $$;
