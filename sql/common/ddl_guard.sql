-- Schema changes of a running cluster are refused: they would reach one SP only. `psp schema adopt` creates these event
-- triggers last, `psp schema release` drops them first. After each command the guard looks at what the catalog says
-- (guarded_state.sql), not at what the command is called: captured relations and strided sequences are as they were, and
-- there is no other permanent table or sequence. What does not touch them stays local and is allowed.

CREATE FUNCTION psp.refuse_ddl(
    object text, command text,
    detail text DEFAULT 'The change would reach this semi-primary only.',
    hint text DEFAULT 'Release the database with "psp schema release", change it and adopt it again.'
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'feature_not_supported',
        MESSAGE = format('psp: %s of %s is not supported while the database is part of a cluster', command, object),
        DETAIL = detail,
        HINT = hint;
END $$;

CREATE FUNCTION psp.is_captured(relation oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
          JOIN psp.guarded_objects g ON (g.schema_name, g.relation_name) = (n.nspname, c.relname) AND g.kind = 'relation'
         WHERE c.oid = relation)
$$;

-- Temporary tables. A foreign key between them: PostgreSQL empties tables ON COMMIT DELETE ROWS at the very end of COMMIT,
-- and fails then if another table refers to one.
CREATE FUNCTION psp.check_temporary(relation oid, object text, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent
                WHERE i.inhrelid = relation AND p.relpersistence = 'p') THEN
        PERFORM psp.refuse_ddl(object, command, 'A temporary table would be part of a captured table, and its rows of no other '
                               'semi-primary''s.', 'CREATE TEMPORARY TABLE … (LIKE …) makes a table of the same columns.');
    ELSIF EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = relation AND k.contype = 'f') THEN
        PERFORM psp.refuse_ddl(object, command, 'It has a foreign key to a temporary table. If that one has ON COMMIT DELETE ROWS, '
                               'PostgreSQL fails at the end of COMMIT, when the primary has committed the transaction already.',
                               'Leave out the foreign key, or use unlogged tables.');
    END IF;
END $$;

-- The name of a function by which an index might refuse a row that another server has taken; null: there is none. The
-- expressions and the predicate may hold only what cannot fail, whatever the row is.
CREATE FUNCTION psp.risk_of_index(index oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT min(coalesce('function ' || f.oid::regprocedure, lower(m.found[1])))
      FROM pg_index i
     CROSS JOIN LATERAL regexp_matches(concat(i.indexprs::text, i.indpred::text), '\{(\w+)|:(?:op)?funcid (\d+)', 'g') m(found)
      LEFT JOIN pg_proc f ON f.oid = m.found[2]::oid
     WHERE i.indexrelid = index
       AND CASE WHEN m.found[1] IS NOT NULL
                THEN m.found[1] NOT IN ('VAR', 'CONST', 'FUNCEXPR', 'OPEXPR', 'DISTINCTEXPR', 'NULLIFEXPR', 'SCALARARRAYOPEXPR',
                                        'BOOLEXPR', 'NULLTEST', 'BOOLEANTEST', 'RELABELTYPE', 'COALESCE', 'CASE', 'WHEN')
                ELSE f.oid IS NULL OR f.oid >= 16384 OR NOT (
                     f.proleakproof OR f.proname ~ '^(numeric|enum|uuid|date|timestamp|timestamptz|jsonb)_(eq|ne|lt|le|gt|ge)$'
                     OR f.proname IN ('lower', 'upper', 'md5', 'length', 'char_length', 'octet_length', 'btrim', 'ltrim', 'rtrim',
                                      'jsonb_object_field', 'jsonb_object_field_text', 'json_object_field_text', 'jsonb_exists',
                                      'jsonb_contains')) END
$$;

CREATE FUNCTION psp.check_index(index oid, object text, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    risk text := psp.risk_of_index(index);
BEGIN
    IF EXISTS (SELECT FROM pg_index i WHERE i.indexrelid = index AND (i.indisunique OR i.indisexclusion)) THEN
        PERFORM psp.refuse_ddl(object, command, 'A unique index at this semi-primary only could refuse rows that are committed.');
    ELSIF risk IS NOT NULL THEN
        PERFORM psp.refuse_ddl(
            object, command,
            format('An index is local to this semi-primary. This one uses %s, which could fail for a row that is committed.', risk),
            'Index plain columns, or release the database, make the index and adopt the database again.');
    END IF;
END $$;

-- What of a captured relation the object is part of the definition of: a type, or a function of a CHECK, an index or a
-- generated column, at any depth. Null: of none. A column's default, triggers and policies may change: they decide what is
-- written, not what becomes of rows that are committed.
CREATE FUNCTION psp.relied_on_by(class oid, object oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    WITH RECURSIVE users(classid, objid) AS (
        SELECT class, object
        UNION
        SELECT n.classid, n.objid FROM users u
         CROSS JOIN LATERAL (
            SELECT d.classid, d.objid FROM pg_depend d
             WHERE d.refclassid = u.classid AND d.refobjid = u.objid AND d.deptype IN ('n', 'a', 'i')
               AND d.classid NOT IN ('pg_rewrite'::regclass, 'pg_trigger'::regclass, 'pg_policy'::regclass,
                                     'pg_publication_rel'::regclass, 'pg_statistic_ext'::regclass, 'pg_cast'::regclass)
            UNION ALL  -- a domain's CHECK
            SELECT 'pg_type'::regclass, k.contypid FROM pg_constraint k
             WHERE u.classid = 'pg_constraint'::regclass AND k.oid = u.objid AND k.contypid <> 0
            UNION ALL  -- the type of a composite type's relation
            SELECT 'pg_type'::regclass, c.reltype FROM pg_class c
             WHERE u.classid = 'pg_class'::regclass AND c.oid = u.objid AND c.relkind = 'c'
            UNION ALL  -- members of an operator family
            SELECT d.refclassid, d.refobjid FROM pg_depend d
             WHERE u.classid IN ('pg_amproc'::regclass, 'pg_amop'::regclass) AND d.classid = u.classid AND d.objid = u.objid
               AND d.refclassid IN ('pg_opclass'::regclass, 'pg_opfamily'::regclass)
         ) n
         WHERE u.classid <> 'pg_class'::regclass OR EXISTS (SELECT FROM pg_class c WHERE c.oid = u.objid AND c.relkind IN ('c', 'v', 'm'))
    ), relations AS (
        SELECT coalesce(i.indrelid, k.conrelid, f.adrelid, CASE WHEN u.classid = 'pg_class'::regclass THEN u.objid END) AS relation
          FROM users u
          LEFT JOIN pg_index i ON u.classid = 'pg_class'::regclass AND i.indexrelid = u.objid
          LEFT JOIN pg_constraint k ON u.classid = 'pg_constraint'::regclass AND k.oid = u.objid AND k.conrelid <> 0
          LEFT JOIN (pg_attrdef f JOIN pg_attribute a ON (a.attrelid, a.attnum) = (f.adrelid, f.adnum) AND a.attgenerated <> '')
            ON u.classid = 'pg_attrdef'::regclass AND f.oid = u.objid
         WHERE (u.classid, u.objid) <> (class, object)
    )
    SELECT min(relation::regclass::text) FROM relations WHERE relation <> 0 AND psp.is_captured(relation)
$$;

-- Permanent tables and sequences that are not known, and captured ones that are gone or changed, wherever they are: a command
-- need not tell all that it has changed.
CREATE FUNCTION psp.check_all(command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT * FROM psp.changed_relations LOOP
        PERFORM psp.refuse_ddl(format('%I.%I', r.schema_name, r.relation_name), command);
    END LOOP;
    FOR r IN SELECT u.*, u.relation::regclass AS label, c.relispartition
               FROM psp.unknown_relations u JOIN pg_class c ON c.oid = u.relation LOOP
        IF r.relispartition THEN
            PERFORM psp.refuse_ddl(
                r.label::text, command,
                'The partition would exist at this semi-primary only, and other servers have no place for its rows.',
                'Make partitions for the time to come, and a DEFAULT partition, before adoption. For a new one release the database '
                'with "psp schema release", create it and adopt the database again.');
        END IF;
        PERFORM psp.refuse_ddl(
            r.label::text, command,
            CASE r.kind WHEN 'S' THEN 'Every semi-primary would draw the same numbers from it.'
                        ELSE 'The table would exist at this semi-primary only, and its rows would not be certified.' END,
            'Make it temporary or unlogged, if it may stay local. Otherwise release the database with "psp schema release", create '
            'it and adopt the database again.');
    END LOOP;
    FOR r IN
        WITH captured AS MATERIALIZED (
            SELECT c.oid FROM psp.guarded_objects g JOIN pg_namespace n ON n.nspname = g.schema_name
              JOIN pg_class c ON (c.relnamespace, c.relname) = (n.oid, g.relation_name) WHERE g.kind = 'relation')
        SELECT i.inhrelid::regclass AS child, i.inhparent::regclass AS parent
          FROM pg_inherits i JOIN captured p ON p.oid = i.inhparent
         WHERE NOT EXISTS (SELECT FROM captured o WHERE o.oid = i.inhrelid)
           AND EXISTS (SELECT FROM pg_class c WHERE c.oid = i.inhrelid AND c.relkind IN ('r', 'p', 'f'))
    LOOP
        PERFORM psp.refuse_ddl(r.child::text, command, format('Its rows would be part of %s, and of no other semi-primary''s.', r.parent));
    END LOOP;
END $$;

-- A relation that a command has touched: an ordinary one, a sequence, or the table of an index or a trigger.
CREATE FUNCTION psp.check_touched(relation oid, object text, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    sequences oid[] := ARRAY(SELECT d.objid FROM pg_depend d JOIN pg_class c ON c.oid = d.objid AND c.relkind = 'S'
                              WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
                                AND d.refobjid = relation AND d.deptype IN ('a', 'i'));
    sequence  regclass;
    changed   record;
    version   integer;
BEGIN
    IF EXISTS (SELECT FROM pg_class c WHERE c.oid = relation AND c.relkind = 'S') THEN
        sequences := ARRAY[relation];
    ELSIF NOT psp.is_captured(relation) THEN
        IF EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = relation AND k.contype = 'f' AND psp.is_captured(k.confrelid)) THEN
            PERFORM psp.refuse_ddl(object, command, 'Its foreign key would be checked at this semi-primary only: rows of the captured '
                                   'table that another one deletes would leave their references behind.');
        END IF;
        RETURN;
    END IF;
    SELECT g.version INTO version FROM psp.guarded_by g;
    IF version <> current_setting('server_version_num')::integer / 10000 AND psp.is_captured(relation) THEN
        PERFORM psp.refuse_ddl(object, command, 'PostgreSQL has been upgraded, and the guard has not been renewed yet.',
                               'Start psp-semi-primary.');
    END IF;
    SELECT * INTO changed FROM psp.changed_objects(sequences || relation) LIMIT 1;
    IF FOUND THEN
        PERFORM psp.refuse_ddl(object, command, format('It would change the %s %I of %I.%I at this semi-primary only.',
                                                       changed.kind, changed.name, changed.schema_name, changed.relation_name));
    END IF;
    FOREACH sequence IN ARRAY sequences LOOP
        IF psp.is_out_of_class(sequence) THEN
            PERFORM psp.refuse_ddl(object, command, format('Sequence %s would draw numbers that belong to other semi-primaries.', sequence));
        END IF;
    END LOOP;
END $$;

-- Rows of other semi-primaries are written as the table's owner, who can take the right to do so from itself.
CREATE FUNCTION psp.check_rights(command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relation text;
BEGIN
    SELECT c.oid::regclass INTO relation
      FROM psp.captured_relations r JOIN pg_class c ON c.oid = r.relation AND c.relkind IN ('r', 'p') AND NOT c.relispartition
     WHERE NOT (has_table_privilege(c.relowner, c.oid, 'SELECT') AND has_table_privilege(c.relowner, c.oid, 'INSERT')
                AND has_table_privilege(c.relowner, c.oid, 'UPDATE') AND has_table_privilege(c.relowner, c.oid, 'DELETE')
                AND has_schema_privilege(c.relowner, c.relnamespace, 'USAGE'))
     LIMIT 1;
    IF FOUND THEN
        PERFORM psp.refuse_ddl(relation, command, 'Its owner would lose rights, and other servers'' rows are written as the owner.',
                               'Take rights from roles that own no captured table.');
    END IF;
END $$;

CREATE FUNCTION psp.on_ddl() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c         record;
    relation  oid;
    reliant   text;
    is_local  boolean := true;  -- nothing but temporary objects, rights and comments
BEGIN
    FOR c IN SELECT * FROM pg_event_trigger_ddl_commands() LOOP
        IF c.schema_name = 'pg_temp' THEN
            IF c.classid = 'pg_class'::regclass THEN
                PERFORM psp.check_temporary(c.objid, c.object_identity, c.command_tag);
            END IF;
            CONTINUE;
        ELSIF c.command_tag IN ('COMMENT', 'SECURITY LABEL', 'GRANT', 'REVOKE', 'ALTER DEFAULT PRIVILEGES') THEN
            IF c.command_tag = 'REVOKE' THEN
                PERFORM psp.check_rights(c.command_tag);
            END IF;
            CONTINUE;
        END IF;
        is_local := false;
        IF c.schema_name = 'psp' OR (c.classid, c.objid) = ('pg_namespace'::regclass, 'psp'::regnamespace) THEN
            PERFORM psp.refuse_ddl(c.object_identity, c.command_tag);
        END IF;
        relation := CASE c.classid
            WHEN 'pg_class'::regclass THEN coalesce((SELECT i.indrelid FROM pg_index i WHERE i.indexrelid = c.objid), c.objid)
            WHEN 'pg_trigger'::regclass THEN (SELECT t.tgrelid FROM pg_trigger t WHERE t.oid = c.objid)
            WHEN 'pg_rewrite'::regclass THEN (SELECT r.ev_class FROM pg_rewrite r WHERE r.oid = c.objid)
            WHEN 'pg_constraint'::regclass THEN (SELECT k.conrelid FROM pg_constraint k WHERE k.oid = c.objid)
            WHEN 'pg_attrdef'::regclass THEN (SELECT f.adrelid FROM pg_attrdef f WHERE f.oid = c.objid)
            END;
        IF relation <> 0 THEN
            PERFORM psp.check_touched(relation, c.object_identity, c.command_tag);
            IF c.command_tag = 'CREATE INDEX' AND psp.is_captured(relation) THEN
                PERFORM psp.check_index(c.objid, c.object_identity, c.command_tag);
            END IF;
        END IF;
        IF NOT c.in_extension AND c.classid NOT IN ('pg_namespace'::regclass, 'pg_extension'::regclass, 'pg_collation'::regclass) THEN
            reliant := psp.relied_on_by(c.classid, c.objid);
            IF reliant IS NOT NULL THEN
                PERFORM psp.refuse_ddl(c.object_identity, c.command_tag, format('%s relies on it.', reliant));
            END IF;
        END IF;
    END LOOP;
    IF NOT is_local OR tg_tag = 'DROP OWNED' THEN
        PERFORM psp.check_all(tg_tag);
    END IF;
END $$;

CREATE FUNCTION psp.on_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    d record;
BEGIN
    FOR d IN
        SELECT o.* FROM pg_event_trigger_dropped_objects() o
         WHERE NOT o.is_temporary
           AND (o.schema_name = 'psp' OR o.object_type = 'schema' AND o.object_name = 'psp'
                OR EXISTS (SELECT FROM psp.guarded_objects g
                            WHERE g.kind IN ('relation', 'unique index', 'sequence')
                              AND (g.schema_name, g.name) = (o.schema_name, o.object_name) AND o.classid = 'pg_class'::regclass)
                OR o.object_type IN ('table column', 'view column', 'table constraint', 'default value', 'trigger', 'rule')
                   AND EXISTS (SELECT FROM psp.guarded_objects g
                                WHERE g.kind = 'relation'
                                  AND (g.schema_name::text, g.relation_name::text) = (o.address_names[1], o.address_names[2])))
    LOOP
        PERFORM psp.refuse_ddl(d.object_identity, tg_tag);
    END LOOP;
END $$;

-- ALTER TABLE … TYPE … USING may leave the catalog as it was, and change every row.
CREATE FUNCTION psp.on_rewrite() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF psp.is_captured(pg_event_trigger_table_rewrite_oid()) THEN
        PERFORM psp.refuse_ddl(pg_event_trigger_table_rewrite_oid()::regclass::text, tg_tag);
    END IF;
END $$;
