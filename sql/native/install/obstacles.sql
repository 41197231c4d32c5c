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
            ELSE i.type END AS kind
  FROM objects o CROSS JOIN LATERAL pg_identify_object(o.class, o.object, 0) i CROSS JOIN LATERAL pg_identify_object_as_address(o.class, o.object, 0) a
 WHERE pg_describe_object(o.class, o.object, 0) IS NOT NULL AND o.class <> 'pg_type'::regclass
UNION ALL
SELECT o.class, o.object, format('%I.%I', n.nspname, t.typname), t.typname, 'type'
  FROM objects o JOIN pg_type t ON o.class = 'pg_type'::regclass AND t.oid = o.object JOIN pg_namespace n ON n.oid = t.typnamespace;

-- Of relations, types and functions.
CREATE FUNCTION psp.is_renamed_by_alter(kind text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT kind IN ('foreign table', 'index', 'materialized view', 'routine', 'sequence', 'table', 'type', 'view')
$$;

-- Gives a local object another name, and returns the old one, for this object and this kind of object only.
CREATE FUNCTION psp.rename_local_object(found psp.named_local_objects, new_name name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
BEGIN
    PERFORM psp.run_own_command(format('ALTER %s %s RENAME TO %I', found.kind, found.identity, new_name));
END $$;

-- What an error says is there already: exactly one local relation, type or function of this name, in a schema in which the statement may have looked, and no
-- superuser's. Everything else stays, and so does the statement: a name that was taken from somebody by mistake is worse than a stream that stops.
CREATE FUNCTION psp.local_object_in_the_way(problem text, statement text, role name, settings jsonb) RETURNS SETOF psp.named_local_objects
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    parts CONSTANT text[] := regexp_match(problem, '^(relation|type|function) "(.+)" already exists(?: with same argument types)?$');
    words CONSTANT text[] := psp.words_of(statement);
    found psp.named_local_objects[];
BEGIN
    found := ARRAY(
        SELECT n FROM psp.named_local_objects n
         CROSS JOIN LATERAL (SELECT c.relnamespace AS schema, c.relowner AS owner FROM pg_class c WHERE n.class = 'pg_class'::regclass AND c.oid = n.object
                             UNION ALL SELECT t.typnamespace, t.typowner FROM pg_type t WHERE n.class = 'pg_type'::regclass AND t.oid = n.object
                             UNION ALL SELECT p.pronamespace, p.proowner FROM pg_proc p WHERE n.class = 'pg_proc'::regclass AND p.oid = n.object) h
          JOIN pg_namespace s ON s.oid = h.schema JOIN pg_roles r ON r.oid = h.owner AND NOT r.rolsuper
         WHERE n.name = parts[2] AND psp.is_renamed_by_alter(n.kind) AND (n.kind = 'routine') = (parts[1] = 'function')
           AND (psp.is_named(s.nspname, statement, words) OR s.nspname IN (SELECT p.name FROM psp.names_in_path(settings ->> 'search_path', role) p))
           AND NOT EXISTS (SELECT FROM pg_depend d WHERE (d.classid, d.objid, d.deptype) = (n.class, n.object, 'e')));
    RETURN QUERY SELECT f.* FROM unnest(found) f WHERE cardinality(found) = 1;
END $$;

-- It gets another name. What the servers have together was free where the statement was made, so that only a local one can be in the way.
CREATE FUNCTION psp.move_local_object(problem text, statement text, role name, settings jsonb) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    found psp.named_local_objects;
BEGIN
    SELECT l.* INTO found FROM psp.local_object_in_the_way(problem, statement, role, settings) l;
    IF found.object IS NULL THEN
        RETURN false;
    END IF;
    PERFORM psp.rename_local_object(found, psp.name_aside(found.object, found.name)), psp.tell_moved(found);
    RETURN true;
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
    here  CONSTANT boolean := current_setting('session_replication_role') <> 'replica';
    words text[];
    found psp.named_local_objects;
BEGIN
    IF NOT EXISTS (SELECT FROM psp.local_objects l JOIN pg_class c ON l.class = 'pg_class'::regclass AND c.oid = l.object
                    WHERE c.relname ~ '_(pkey|key|idx|excl|seq)[0-9]*$') THEN
        RETURN;
    END IF;
    words := psp.words_of(statement);
    IF NOT (words && '{create,alter}' AND words && '{table,index}') THEN
        RETURN;
    END IF;
    FOR found IN
        SELECT n.* FROM psp.named_local_objects n
         WHERE n.class = 'pg_class'::regclass AND n.name ~ '_(pkey|key|idx|excl|seq)[0-9]*$' AND psp.is_renamed_by_alter(n.kind) AND NOT (here AND psp.is_named(n.name, statement, words))
           AND EXISTS (SELECT FROM unnest(words) w(word)
                        WHERE w.word <> '' AND starts_with(psp.folded(n.name), CASE WHEN octet_length(w.word) < 28 THEN w.word || '_' ELSE left(w.word, 14) END))
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
        SELECT n AS object, l.old_name, EXISTS (SELECT FROM pg_class o WHERE (o.relname, o.relnamespace) = (l.old_name, c.relnamespace)) AS is_taken,
               r.rolsuper OR EXISTS (SELECT FROM pg_depend d WHERE (d.classid, d.objid, d.deptype) = (l.class, l.object, 'e')) AS is_relied_on
          FROM psp.local_objects l JOIN pg_class c ON c.oid = l.object JOIN pg_roles r ON r.oid = c.relowner JOIN psp.named_local_objects n USING (class, object)
         WHERE l.class = 'pg_class'::regclass AND l.old_name IS NOT NULL ORDER BY l.object
    LOOP
        IF back.is_taken AND back.is_relied_on THEN
            RAISE EXCEPTION USING
                ERRCODE = 'duplicate_table',
                MESSAGE = format('psp: the %s %I, which is at this semi-primary only, has the name that PostgreSQL chooses for what a schema change makes',
                                 (back.object).kind, back.old_name),
                DETAIL = 'Its owner is a superuser, or it is a part of an extension, so it keeps its name.',
                HINT = 'Give it another name, here only: SET psp.schema_changes = local; ALTER … RENAME TO …';
        ELSIF back.is_taken THEN
            PERFORM psp.note_set_aside((back.object).class, (back.object).object,
                        format('%s %s is at this semi-primary only: a schema change needed its name %I', (back.object).kind, (back.object).identity, back.old_name), '', '');
        ELSE
            PERFORM psp.rename_local_object(back.object, back.old_name);
        END IF;
        UPDATE psp.local_objects l SET old_name = NULL WHERE (l.class, l.object) = ((back.object).class, (back.object).object);
    END LOOP;
END $$;

-- ---- publications with a condition or a list of columns, which an error's DETAIL names ---------------------------------------------------------------------

CREATE FUNCTION psp.leave_local_publications(detail text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    relations CONSTANT oid[] := ARRAY(
        SELECT r.prrelid FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid JOIN psp.local_objects l ON (l.class, l.object) = ('pg_publication'::regclass, p.oid)
         WHERE p.pubname IN (SELECT m.found[1] FROM regexp_matches(detail, '\min publication (\S+)', 'g') m(found)));
BEGIN
    PERFORM psp.leave_publications(relations, detail);
    RETURN relations <> '{}';
END $$;

-- ---- rights ---------------------------------------------------------------------------------------------------------------------------------------------------

-- The GRANT that gives a role what it lacks here, by PostgreSQL's message: a function that runs with the rights of its caller, in a language that anybody may use, or
-- a type; and if one only has this name. Nothing by which the role could act as another one, make something, or look into a schema.
CREATE FUNCTION psp.missing_grant(problem text, role name) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
DECLARE
    parts  CONSTANT text[] := regexp_match(problem, '^permission denied for (function|procedure|aggregate|type) (.*)$');
    grants CONSTANT text[] := ARRAY(
        SELECT CASE WHEN NOT p.prosecdef AND l.lanpltrusted THEN format('GRANT EXECUTE ON ROUTINE %s TO %I', p.oid::regprocedure, role) END
          FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
         WHERE parts[1] <> 'type' AND p.proname = parts[2] AND p.oid >= 16384 AND p.pronamespace <> 'psp'::regnamespace
           AND NOT has_function_privilege(role, p.oid, 'EXECUTE')
        UNION ALL
        SELECT format('GRANT USAGE ON TYPE %I.%I TO %I', n.nspname, t.typname, role) FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
         WHERE parts[1] = 'type' AND parts[2] IN (t.typname, format_type(t.oid, NULL)) AND t.typelem = 0 AND NOT has_type_privilege(role, t.oid, 'USAGE'));
BEGIN
    RETURN CASE WHEN cardinality(grants) = 1 THEN grants[1] END;
END $$;

-- (The role is there: psp.check_role_of_statement.)
CREATE FUNCTION psp.give_missing_right(problem text, role name) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    command CONSTANT text := psp.missing_grant(problem, role);
BEGIN
    IF command IS NULL THEN
        RETURN false;
    END IF;
    PERFORM psp.run_own_command(command);
    RAISE WARNING USING MESSAGE = 'psp: a schema change needed a right that was missing here: ' || command;
    PERFORM psp.note_set_aside('pg_namespace', 'psp'::regnamespace, 'a schema change needed a right that was missing here: ' || command, '', '');
    RETURN true;
END $$;

-- ---- where a statement arrives --------------------------------------------------------------------------------------------------------------------------------

-- Whether an error of a statement that has arrived has a cause here that makes way: then the statement may run. Errors of functions, which may raise
-- each of them, move nothing.
CREATE FUNCTION psp.remove_obstacle(state text, problem text, detail text, context text, statement text, role name, settings jsonb) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE
        WHEN psp.may_pass(state) OR psp.is_in_function(E'\n' || context) THEN false
        WHEN state IN ('42P07', '42710', '42723') THEN psp.move_local_object(problem, statement, role, settings)
        WHEN state IN ('2BP01', '0A000') THEN psp.leave_local_publications(detail)
        WHEN state = '42501' THEN psp.give_missing_right(problem, role)
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

-- Objects of this server alone whose names a statement has, and which it must not find: functions, since it may mean others; and relations that it would leave
-- or replace, where it says IF NOT EXISTS or OR REPLACE. Those of superusers and of extensions are at each server, if everything is as it should be,
-- and the statement means them.
CREATE FUNCTION psp.local_objects_in(statement text) RETURNS SETOF psp.named_local_objects
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    words CONSTANT text[] := psp.words_of(statement);
    takes CONSTANT boolean := words @> '{if,not,exists}' OR words @> '{or,replace}';
BEGIN
    IF EXISTS (SELECT FROM psp.local_objects l WHERE l.class = 'pg_proc'::regclass OR takes AND l.class = 'pg_class'::regclass) THEN
        RETURN QUERY
        SELECT n.* FROM psp.named_local_objects n
         CROSS JOIN LATERAL (SELECT p.proowner AS owner FROM pg_proc p WHERE n.class = 'pg_proc'::regclass AND p.oid = n.object
                             UNION ALL SELECT c.relowner FROM pg_class c WHERE takes AND n.class = 'pg_class'::regclass AND c.oid = n.object) o
          JOIN pg_roles r ON r.oid = o.owner AND NOT r.rolsuper
         WHERE psp.is_renamed_by_alter(n.kind) AND psp.is_named(n.name, statement, words)
           AND NOT EXISTS (SELECT FROM pg_depend d WHERE (d.classid, d.objid, d.deptype) = (n.class, n.object, 'e'));
    END IF;
END $$;

CREATE FUNCTION psp.put_local_objects_aside(statement text) RETURNS psp.named_local_objects[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    objects CONSTANT psp.named_local_objects[] := ARRAY(SELECT o FROM psp.local_objects_in(statement) o);
BEGIN
    PERFORM psp.rename_local_object(o, psp.name_aside(o.object, o.name)) FROM unnest(objects) o;
    RETURN objects;
END $$;

-- Whether another object has the name that a local one had.
CREATE FUNCTION psp.is_name_taken(old psp.named_local_objects) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_proc p JOIN pg_proc o ON (o.pronamespace, o.proargtypes) = (p.pronamespace, p.proargtypes)
                    WHERE old.class = 'pg_proc'::regclass AND p.oid = old.object AND o.proname = old.name)
        OR EXISTS (SELECT FROM pg_class c JOIN pg_class o ON o.relnamespace = c.relnamespace
                    WHERE old.class = 'pg_class'::regclass AND c.oid = old.object AND o.relname = old.name)
$$;

-- Those keep their new names whose old ones are taken.
CREATE FUNCTION psp.bring_local_objects_back(objects psp.named_local_objects[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old psp.named_local_objects;
    now psp.named_local_objects;
BEGIN
    FOREACH old IN ARRAY objects LOOP
        SELECT n.* INTO now FROM psp.named_local_objects n WHERE (n.class, n.object) = (old.class, old.object);
        CONTINUE WHEN NOT FOUND;  -- dropped with what it depended on
        IF psp.is_name_taken(old) THEN
            PERFORM psp.tell_moved(old);
        ELSE
            PERFORM psp.rename_local_object(now, old.name);
        END IF;
    END LOOP;
END $$;

-- Whether the statement has run without them. If not, it may need them: what a superuser has made at each server by itself.
CREATE FUNCTION psp.runs_without_local_objects(call text, statement text, role name, settings jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    objects psp.named_local_objects[];
BEGIN
    objects := psp.put_local_objects_aside(statement);
    IF pg_catalog.cardinality(objects) OPERATOR(pg_catalog.=) 0 THEN
        RETURN false;
    END IF;
    PERFORM psp.run_beside_local_indexes(call, statement, role, settings), psp.bring_local_objects_back(objects);
    RETURN true;
EXCEPTION WHEN OTHERS THEN
    IF psp.may_pass(SQLSTATE) THEN
        RAISE;
    END IF;
    RETURN false;
END $$;

-- The local relation that CREATE … IF NOT EXISTS finds in the place of its own, and PostgreSQL would pass over in silence. Where the statement was made there was none.
-- In a text of several statements, too. (What code makes by itself, psp.check_tables_left sees.)
CREATE FUNCTION psp.local_relation_instead(statement text, role name, settings jsonb) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    bare    CONSTANT text := psp.without_comments(psp.without_escapes(statement));
    pattern CONSTANT text := btrim(psp.statement_pattern('(?:TABLE|VIEW|SEQUENCE) IF NOT EXISTS (NAME(?:_\._NAME){0,2})'), '^$');
    made    CONSTANT record := psp.index_in(bare);
    first   CONSTANT oid := (SELECT n.oid FROM psp.names_in_path(settings ->> 'search_path', role) p JOIN pg_namespace n ON n.nspname = p.name
                              WHERE coalesce(settings -> 'schemas' ? p.name, true) ORDER BY p.n LIMIT 1);
BEGIN
    RETURN (WITH named AS (
                SELECT parse_ident(m.found[1])::name[] AS parts FROM regexp_matches(bare, '\m' || pattern, 'gi') m(found)
            ), places AS (
                SELECT n.parts[cardinality(n.parts)] AS name,
                       CASE WHEN cardinality(n.parts) = 1 THEN first ELSE to_regnamespace(quote_ident(n.parts[cardinality(n.parts) - 1]))::oid END AS schema
                  FROM named n
                UNION ALL
                SELECT (parse_ident(made.name))[1]::name, (SELECT c.relnamespace FROM pg_class c WHERE c.oid = psp.table_of_index(statement, role, settings))
                 WHERE made.beginning ~* 'exists$'
            )
            SELECT c.oid FROM places p JOIN pg_class c ON (c.relname, c.relnamespace) = (p.name, p.schema)
              JOIN psp.local_objects l ON (l.class, l.object) = ('pg_class'::regclass, c.oid) ORDER BY c.oid LIMIT 1);
END $$;

CREATE FUNCTION psp.refuse_local_relation_instead(statement text, role name, settings jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found CONSTANT oid := psp.local_relation_instead(statement, role, settings);
BEGIN
    IF found IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'duplicate_table',
            MESSAGE = format('psp: relation %s, which is at this semi-primary only, has the name that a schema change needs', found::regclass),
            DETAIL = 'With IF NOT EXISTS, PostgreSQL would make nothing here.',
            HINT = 'Give it another name, here only: SET psp.schema_changes = local; ALTER … RENAME TO …';
    END IF;
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
    IF psp.runs_without_local_objects(call, text, role, settings) THEN
        RETURN;
    END IF;
    PERFORM psp.refuse_local_relation_instead(text, role, settings);
    FOR attempt IN 1..20 LOOP
        BEGIN
            PERFORM psp.run_beside_local_indexes(call, text, role, settings);
            RETURN;
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, context = PG_EXCEPTION_CONTEXT;
            IF NOT psp.remove_obstacle(SQLSTATE, SQLERRM, detail, context, text, role, settings) OR attempt OPERATOR(pg_catalog.=) 20 THEN
                RAISE;
            END IF;
        END;
    END LOOP;
END $$;
