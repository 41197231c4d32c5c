-- Functions that belong to the owners of tables, because they meet code of theirs: index expressions, CHECKs, casts. They run
-- as the owner, and nothing inside can go back to the role of the session (SECURITY DEFINER forbids that), under the
-- search_path under which the owner works.

-- The schemas of a search_path by their places, for this role.
CREATE FUNCTION psp.names_in_path(path text, role name) RETURNS TABLE (n bigint, name text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT e.n, CASE e.name WHEN '$user' THEN role::text ELSE e.name END
      FROM (SELECT m.n, CASE WHEN m.element[1] LIKE '"%' THEN replace(substr(m.element[1], 2, length(m.element[1]) - 2), '""', '"')
                             ELSE lower(m.element[1]) END
              FROM regexp_matches(path, '"(?:[^"]|"")*"|[^,\s]+', 'g') WITH ORDINALITY m(element, n)) e(n, name)
$$;

-- The search_path of sessions for which nothing else is set. Only superusers may read the configuration file, as a rule; for others it is what this
-- session would have after RESET.
CREATE FUNCTION psp.server_search_path() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    path text;
BEGIN
    IF has_table_privilege('pg_file_settings', 'SELECT') AND has_function_privilege('pg_show_all_file_settings()', 'EXECUTE') THEN
        SELECT f.setting INTO path FROM pg_file_settings f WHERE f.name = 'search_path' AND f.error IS NULL ORDER BY f.seqno DESC LIMIT 1;
        RETURN coalesce(path, (SELECT s.boot_val FROM pg_settings s WHERE s.name = 'search_path'));
    END IF;
    RETURN (SELECT s.reset_val FROM pg_settings s WHERE s.name = 'search_path');
END $$;

-- The search_path of a role's sessions in this database, as a list for a SET clause: from ALTER ROLE and ALTER DATABASE, as
-- PostgreSQL ranks them, else the server's. `home`, the table's own schema, comes after it, if nobody else can put anything
-- there: many applications choose their schema in each session. pg_temp is last, or it would come first. Not psp: psp.is_of_rows.
CREATE FUNCTION psp.search_path_of(owner oid, home oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET plan_cache_mode = force_generic_plan
SET standard_conforming_strings = on AS $$
BEGIN
    RETURN (
    WITH chosen(path) AS (
        SELECT coalesce(
            (SELECT substr(c.setting, length('search_path=') + 1)
               FROM pg_db_role_setting s CROSS JOIN LATERAL unnest(s.setconfig) c(setting)
              WHERE s.setrole IN (owner, 0) AND starts_with(c.setting, 'search_path=')
                AND s.setdatabase IN ((SELECT oid FROM pg_database WHERE datname = current_database()), 0)
              ORDER BY s.setrole = 0, s.setdatabase = 0 LIMIT 1),
            psp.server_search_path())
    ), names(n, name) AS (
        SELECT e.n, e.name FROM chosen CROSS JOIN LATERAL psp.names_in_path(path, pg_get_userbyid(owner)) e
        UNION ALL
        SELECT 1000000, s.nspname FROM pg_namespace s
         WHERE s.oid = home
           AND NOT EXISTS (SELECT FROM aclexplode(coalesce(s.nspacl, acldefault('n', s.nspowner))) a
                            WHERE a.privilege_type = 'CREATE' AND a.grantee <> owner
                              AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = a.grantee AND r.rolsuper))
    ), resolved(n, name) AS (
        SELECT min(r.n), r.name FROM names r WHERE r.name NOT IN ('', 'psp', 'pg_temp') GROUP BY r.name
    )
    SELECT coalesce(string_agg(quote_ident(r.name), ', ' ORDER BY r.n) || ', ', '') || 'pg_temp' FROM resolved r);
END $$;

-- Takes functions from everybody, and from what ALTER DEFAULT PRIVILEGES has given. `keeps`: a role that may go on calling them.
CREATE FUNCTION psp.take_from_all(functions regproc[], keeps oid DEFAULT 0) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    signatures text;
    grantees   text;
BEGIN
    SELECT string_agg(DISTINCT p.oid::regprocedure::text, ', '),
           string_agg(DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END, ', ')
      INTO signatures, grantees
      FROM pg_proc p CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
     WHERE p.oid = ANY (functions::oid[]) AND (a.grantee <> keeps OR a.grantee = 0);
    IF grantees IS NOT NULL THEN
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %s', signatures, grantees);
    END IF;
END $$;

-- Gives objects ('FUNCTION psp.f()') of the schema psp to a role. Who is no superuser can do so only while that role may make objects there.
CREATE FUNCTION psp.give(objects text[], new_owner name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    may_not CONSTANT boolean := NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user)
                                AND NOT has_schema_privilege(new_owner, 'psp', 'CREATE');
    object  text;
BEGIN
    IF may_not THEN
        EXECUTE format('GRANT CREATE ON SCHEMA psp TO %I', new_owner);
    END IF;
    FOREACH object IN ARRAY objects LOOP
        EXECUTE format('ALTER %s OWNER TO %I', object, new_owner);
    END LOOP;
    IF may_not THEN
        EXECUTE format('REVOKE CREATE ON SCHEMA psp FROM %I', new_owner);
    END IF;
END $$;

-- Makes functions those of the owner of `relation`. The owner could grant EXECUTE, but has no need of it. A superuser must call it.
CREATE FUNCTION psp.give_to_owner(functions regproc[], relation regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner CONSTANT name := (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = relation);
BEGIN
    PERFORM psp.give(ARRAY(SELECT 'FUNCTION ' || f.function::regprocedure FROM unnest(functions) f(function)), owner);
    PERFORM psp.take_from_all(functions);
END $$;
