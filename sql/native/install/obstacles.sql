-- What stands in the way of a schema change that arrives, though it ran where it was made: objects of this semi-primary alone (psp.local_objects), and rights that
-- its role lacks here. It makes way, and psp.status tells. docs/decisions/75.
-- All of this is called where a statement arrives: errors are in English there (psp.run_statement).

-- Local objects with their names, and what extensions that are local have brought.
CREATE VIEW psp.named_local_objects AS
WITH objects AS MATERIALIZED (
    SELECT l.class, l.object FROM psp.local_objects l
    UNION SELECT d.classid, d.objid FROM psp.local_objects l JOIN pg_depend d ON (d.refclassid, d.refobjid, d.deptype) = (l.class, l.object, 'e')
)
SELECT o.class, o.object, i.identity, a.object_names[cardinality(a.object_names)]::name AS name,
       CASE WHEN i.type IN ('function', 'procedure', 'aggregate') THEN 'routine'
            WHEN i.type = 'composite type' THEN 'type'
            WHEN i.type = 'statistics object' THEN 'statistics'
            WHEN i.type = 'foreign-data wrapper' THEN 'foreign data wrapper'
            ELSE i.type END AS kind
  FROM objects o CROSS JOIN LATERAL pg_identify_object(o.class, o.object, 0) i CROSS JOIN LATERAL pg_identify_object_as_address(o.class, o.object, 0) a
 WHERE pg_describe_object(o.class, o.object, 0) IS NOT NULL AND o.class <> 'pg_type'::regclass
UNION ALL
SELECT o.class, o.object, format('%I.%I', n.nspname, t.typname), t.typname, 'type'
  FROM objects o JOIN pg_type t ON o.class = 'pg_type'::regclass AND t.oid = o.object JOIN pg_namespace n ON n.oid = t.typnamespace;

CREATE FUNCTION psp.is_renamed_by_alter(kind text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT kind IN ('collation', 'conversion', 'foreign data wrapper', 'foreign table', 'index', 'language', 'materialized view', 'operator class', 'operator family',
                    'policy', 'publication', 'routine', 'schema', 'sequence', 'server', 'statistics', 'table', 'text search configuration',
                    'text search dictionary', 'text search parser', 'text search template', 'type', 'view')
$$;

-- Gives a local object another name, and returns the old one, for this object and this kind of object only.
CREATE FUNCTION psp.rename_local_object(found psp.named_local_objects, new_name name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
BEGIN
    PERFORM psp.run_own_command(format('ALTER %s %s RENAME TO %I', found.kind, found.identity, new_name));
END $$;

-- Local objects of which an error says that they are there already. What the servers have together was free where the statement was made, so that only local ones
-- can be in the way.
CREATE FUNCTION psp.move_local_objects(problem text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    found psp.named_local_objects;
    moved boolean := false;
BEGIN
    FOR found IN SELECT n.* FROM psp.named_local_objects n
                  WHERE position(n.name IN problem) > 0 AND psp.is_renamed_by_alter(n.kind) ORDER BY n.class, n.object LOOP
        PERFORM psp.rename_local_object(found, psp.name_aside(found.object, found.name)), psp.tell_moved(found);
        moved := true;
    END LOOP;
    RETURN moved;
END $$;

CREATE FUNCTION psp.tell_moved(found psp.named_local_objects) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    told CONSTANT text := format('%s %s, which is at this semi-primary only, is %I now: a schema change needed its name',
                                 found.kind, found.identity, psp.name_aside(found.object, found.name));
BEGIN
    RAISE WARNING USING MESSAGE = 'psp: ' || told;
    PERFORM psp.note_set_aside(found.class, found.object, told, '', '');
END $$;

-- Local relations with names that PostgreSQL may choose for sequences and indexes of a table in a statement: it would choose others, at this server only. Until the
-- statement has run they have other names, where it runs first, too.
CREATE FUNCTION psp.set_local_relations_aside(statement text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    words text[];
    found psp.named_local_objects;
BEGIN
    IF NOT EXISTS (SELECT FROM psp.local_objects l JOIN pg_class c ON l.class = 'pg_class'::regclass AND c.oid = l.object
                    WHERE c.relname ~ '_(pkey|key|idx|excl|seq)[0-9]*$') THEN
        RETURN;
    END IF;
    words := psp.words_of(statement);
    FOR found IN
        SELECT n.* FROM psp.named_local_objects n
         WHERE n.class = 'pg_class'::regclass AND n.name ~ '_(pkey|key|idx|excl|seq)[0-9]*$' AND psp.is_renamed_by_alter(n.kind) AND NOT psp.is_named(n.name, statement, words)
           AND EXISTS (SELECT FROM unnest(words) w(word) WHERE w.word <> '' AND starts_with(psp.folded(n.name), left(w.word, 28)))
         ORDER BY n.object
    LOOP
        PERFORM psp.rename_local_object(found, psp.name_aside(found.object, found.name));
        UPDATE psp.local_objects l SET old_name = found.name WHERE (l.class, l.object) = (found.class, found.object);
    END LOOP;
END $$;

CREATE FUNCTION psp.bring_local_relations_back() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    back record;
BEGIN
    FOR back IN
        SELECT n AS object, l.old_name, EXISTS (SELECT FROM pg_class o WHERE (o.relname, o.relnamespace) = (l.old_name, c.relnamespace)) AS is_taken
          FROM psp.local_objects l JOIN pg_class c ON c.oid = l.object JOIN psp.named_local_objects n USING (class, object)
         WHERE l.class = 'pg_class'::regclass AND l.old_name IS NOT NULL ORDER BY l.object
    LOOP
        IF back.is_taken THEN
            PERFORM psp.note_set_aside((back.object).class, (back.object).object,
                        format('%s %s is at this semi-primary only: a schema change needed its name %I', (back.object).kind, (back.object).identity, back.old_name), '', '');
        ELSE
            PERFORM psp.rename_local_object(back.object, back.old_name);
        END IF;
        UPDATE psp.local_objects l SET old_name = NULL WHERE (l.class, l.object) = ((back.object).class, (back.object).object);
    END LOOP;
END $$;

-- ---- what depends on an object that changes or goes ---------------------------------------------------------------------------------------------------------

-- The text by which it can be made again.
CREATE FUNCTION psp.definition_of(class oid, object oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
BEGIN
    RETURN CASE class
        WHEN 'pg_class'::regclass THEN
            (SELECT CASE c.relkind WHEN 'v' THEN format('CREATE VIEW %s AS %s', c.oid::regclass, pg_get_viewdef(c.oid))
                                   WHEN 'm' THEN format('CREATE MATERIALIZED VIEW %s AS %s', c.oid::regclass, pg_get_viewdef(c.oid)) END
               FROM pg_class c WHERE c.oid = object)
        WHEN 'pg_proc'::regclass THEN (SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.oid = object AND p.prokind IN ('f', 'p'))
        WHEN 'pg_policy'::regclass THEN
            (SELECT format('CREATE POLICY %I ON %s FOR %s%s%s', p.polname, p.polrelid::regclass,
                           CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
                           ' USING (' || pg_get_expr(p.polqual, p.polrelid) || ')', ' WITH CHECK (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')')
               FROM pg_policy p WHERE p.oid = object)
    END;
END $$;

-- Local views, functions and policies that an error names in its DETAIL. They have no rows of their own: their definitions are kept.
CREATE FUNCTION psp.drop_local_dependents(detail text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    found   psp.named_local_objects;
    told    text;
    dropped boolean := false;
BEGIN
    FOR found IN SELECT n.* FROM psp.named_local_objects n
                  WHERE position(n.name IN detail) > 0 AND n.kind IN ('view', 'materialized view', 'routine', 'policy') ORDER BY n.class, n.object LOOP
        CONTINUE WHEN pg_describe_object(found.class, found.object, 0) IS NULL;  -- it has gone with another one
        told := format('%s %s, which was at this semi-primary only, is dropped: it was in the way of a schema change', found.kind, found.identity);
        PERFORM psp.note_set_aside('pg_namespace', 'psp'::regnamespace, told, coalesce(psp.definition_of(found.class, found.object), ''), detail);
        RAISE WARNING USING MESSAGE = 'psp: ' || told, DETAIL = coalesce(psp.definition_of(found.class, found.object), '');
        PERFORM psp.run_own_command(format('DROP %s %s CASCADE', found.kind, found.identity));
        dropped := true;
    END LOOP;
    RETURN dropped OR psp.leave_local_publications(detail);
END $$;

-- Local publications with a condition or a list of columns.
CREATE FUNCTION psp.leave_local_publications(detail text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relations CONSTANT oid[] := ARRAY(
        SELECT r.prrelid FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid JOIN psp.local_objects l ON (l.class, l.object) = ('pg_publication'::regclass, p.oid)
         WHERE position(p.pubname IN detail) > 0);
BEGIN
    PERFORM psp.leave_publications(relations, detail);
    RETURN relations <> '{}';
END $$;

-- ---- rights ---------------------------------------------------------------------------------------------------------------------------------------------------

-- GRANTs that give a role what it lacks here, by PostgreSQL's message. Nothing by which it could act as another role: of functions those that run
-- with the rights of their caller, in languages that anybody may use; of tables what a foreign key needs.
CREATE FUNCTION psp.missing_grants(problem text, role name) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
DECLARE
    parts CONSTANT text[] := regexp_match(problem, '^permission denied for (?:foreign |materialized )?(\w+) (.*)$');
BEGIN
    RETURN QUERY
    SELECT format('GRANT EXECUTE ON ROUTINE %s TO %I', p.oid::regprocedure, role)
      FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang AND l.lanpltrusted
     WHERE parts[1] IN ('function', 'procedure', 'aggregate') AND p.proname = parts[2] AND p.oid >= 16384 AND p.pronamespace <> 'psp'::regnamespace
       AND NOT p.prosecdef AND NOT has_function_privilege(role, p.oid, 'EXECUTE')
    UNION ALL
    SELECT format('GRANT USAGE, CREATE ON SCHEMA %I TO %I', n.nspname, role) FROM pg_namespace n
     WHERE parts[1] = 'schema' AND n.nspname = parts[2] AND n.nspname <> 'psp' AND n.oid >= 2200
       AND NOT (has_schema_privilege(role, n.oid, 'USAGE') AND has_schema_privilege(role, n.oid, 'CREATE'))
    UNION ALL
    SELECT format('GRANT USAGE ON TYPE %I.%I TO %I', n.nspname, t.typname, role) FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
     WHERE parts[1] = 'type' AND parts[2] IN (t.typname, format_type(t.oid, NULL)) AND t.typelem = 0 AND NOT has_type_privilege(role, t.oid, 'USAGE')
    UNION ALL
    SELECT format('GRANT USAGE ON LANGUAGE %I TO %I', l.lanname, role) FROM pg_language l
     WHERE parts[1] = 'language' AND l.lanname = parts[2] AND l.lanpltrusted AND NOT has_language_privilege(role, l.oid, 'USAGE')
    UNION ALL
    SELECT format('GRANT REFERENCES ON TABLE %s TO %I', c.oid::regclass, role) FROM psp.captured_relations r JOIN pg_class c ON c.oid = r.relation
     WHERE parts[1] = 'table' AND c.relname = parts[2] AND NOT has_table_privilege(role, c.oid, 'REFERENCES')
    UNION ALL
    SELECT format('GRANT CREATE ON DATABASE %I TO %I', d.datname, role) FROM pg_database d
     WHERE parts[1] = 'database' AND d.datname = parts[2] AND d.datname = current_database() AND NOT has_database_privilege(role, d.oid, 'CREATE');
END $$;

-- (The role is there: psp.check_role_of_statement.)
CREATE FUNCTION psp.give_missing_rights(problem text, role name) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    command text;
    given   boolean := false;
BEGIN
    FOR command IN SELECT g FROM psp.missing_grants(problem, role) g LOOP
        PERFORM psp.give_right(command);
        given := true;
    END LOOP;
    RETURN given;
END $$;

CREATE FUNCTION psp.give_right(command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM psp.run_own_command(command);
    RAISE WARNING USING MESSAGE = 'psp: a schema change needed a right that was missing here: ' || command;
    PERFORM psp.note_set_aside('pg_namespace', 'psp'::regnamespace, 'a schema change needed a right that was missing here: ' || command, '', '');
END $$;

-- Schemas in which the statement looks for names, and that are here: its role may use them.
CREATE FUNCTION psp.give_path(settings jsonb, role name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM psp.give_right(format('GRANT USAGE ON SCHEMA %I TO %I', n.nspname, role))
       FROM psp.names_in_path(settings ->> 'search_path', role) p JOIN pg_namespace n ON n.nspname = p.name
      WHERE settings -> 'schemas' ? p.name AND n.oid >= 2200 AND n.nspname <> 'psp' AND NOT has_schema_privilege(role, n.oid, 'USAGE');
END $$;

-- ---- where a statement arrives --------------------------------------------------------------------------------------------------------------------------------

-- Whether an error of a statement that has arrived has a cause here that makes way: then the statement may run. Errors of functions, which may raise
-- each of them, move nothing.
CREATE FUNCTION psp.remove_obstacle(state text, problem text, detail text, context text, role name) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE
        WHEN psp.may_pass(state) OR psp.is_in_function(E'\n' || context) THEN false
        WHEN state IN ('42P07', '42710', '42723', '42P06') THEN psp.move_local_objects(problem)
        WHEN state IN ('2BP01', '0A000') THEN psp.drop_local_dependents(detail)
        WHEN state = '42501' THEN psp.give_missing_rights(problem, role)
        ELSE false END;
END $$;

-- An extension that somebody has made here already is the one that all others get. Every other statement stays as it is: a bare one may lack the end of a name.
CREATE FUNCTION psp.extension_if_missing(statement text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    pattern CONSTANT text := psp.with_gaps('^create extension (?!if\M)');
    bare    CONSTANT text := psp.bare_statement(statement);
BEGIN
    IF bare !~* pattern OR psp.may_have_several(bare) THEN
        RETURN statement;
    END IF;
    RETURN regexp_replace(bare, pattern, 'CREATE EXTENSION IF NOT EXISTS ', 'i');
END $$;

-- Functions of this server alone whose names a statement has: it may mean others.
CREATE FUNCTION psp.local_routines_in(statement text) RETURNS SETOF psp.named_local_objects
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    words CONSTANT text[] := psp.words_of(statement);
BEGIN
    IF EXISTS (SELECT FROM psp.local_objects l WHERE l.class = 'pg_proc'::regclass) THEN
        RETURN QUERY SELECT n.* FROM psp.named_local_objects n WHERE n.kind = 'routine' AND psp.is_named(n.name, statement, words);
    END IF;
END $$;

CREATE FUNCTION psp.put_routines_aside(statement text) RETURNS psp.named_local_objects[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    routines CONSTANT psp.named_local_objects[] := ARRAY(SELECT r FROM psp.local_routines_in(statement) r);
BEGIN
    PERFORM psp.rename_local_object(r, psp.name_aside(r.object, r.name)) FROM unnest(routines) r;
    RETURN routines;
END $$;

-- Those keep their new names whose old ones are taken.
CREATE FUNCTION psp.bring_routines_back(routines psp.named_local_objects[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old psp.named_local_objects;
    now psp.named_local_objects;
BEGIN
    FOREACH old IN ARRAY routines LOOP
        SELECT n.* INTO now FROM psp.named_local_objects n WHERE (n.class, n.object) = (old.class, old.object);
        CONTINUE WHEN NOT FOUND;  -- dropped with what it depended on
        IF EXISTS (SELECT FROM pg_proc p JOIN pg_proc o ON (o.pronamespace, o.proargtypes) = (p.pronamespace, p.proargtypes)
                    WHERE p.oid = old.object AND o.proname = old.name) THEN
            PERFORM psp.tell_moved(old);
        ELSE
            PERFORM psp.rename_local_object(now, old.name);
        END IF;
    END LOOP;
END $$;

-- Whether the statement has run without them. If not, it may need them: what a superuser has made at each server by itself.
CREATE FUNCTION psp.runs_without_local_routines(call text, statement text, role name, settings jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    routines psp.named_local_objects[];
BEGIN
    routines := psp.put_routines_aside(statement);
    IF pg_catalog.cardinality(routines) OPERATOR(pg_catalog.=) 0 THEN
        RETURN false;
    END IF;
    PERFORM psp.run_beside_local_indexes(call, statement, role, settings), psp.bring_routines_back(routines);
    RETURN true;
EXCEPTION WHEN OTHERS THEN
    IF psp.may_pass(SQLSTATE) THEN
        RAISE;
    END IF;
    RETURN false;
END $$;

-- Runs a statement that has arrived. What is in its way makes way, one thing after the other; if that does not help, the error is that of the last
-- attempt, and all is as before. Called under the statement's settings.
CREATE FUNCTION psp.run_past_obstacles(call text, statement text, role name, settings jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    text    CONSTANT pg_catalog.text := psp.extension_if_missing(statement);
    detail  pg_catalog.text;
    context pg_catalog.text;
BEGIN
    IF psp.runs_without_local_routines(call, text, role, settings) THEN
        RETURN;
    END IF;
    FOR attempt IN 1..20 LOOP
        BEGIN
            PERFORM psp.run_beside_local_indexes(call, text, role, settings);
            RETURN;
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, context = PG_EXCEPTION_CONTEXT;
            IF NOT psp.remove_obstacle(SQLSTATE, SQLERRM, detail, context, role) OR attempt OPERATOR(pg_catalog.=) 20 THEN
                RAISE;
            END IF;
        END;
    END LOOP;
END $$;
