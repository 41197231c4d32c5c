-- Functions that belong to the owners of tables, because they meet code of theirs: index expressions, CHECKs, casts. They run
-- as the owner, and nothing inside can go back to the role of the session (SECURITY DEFINER forbids that), under the
-- search_path under which the owner works.

-- The search_path of a role's sessions in this database, as a list for a SET clause: from ALTER ROLE and ALTER DATABASE, as
-- PostgreSQL ranks them, else the server's. `home`, the table's own schema, comes after it, if nobody else can put anything
-- there: many applications choose their schema in each session. pg_temp is last, or it would come first.
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
            (SELECT f.setting FROM pg_file_settings f WHERE f.name = 'search_path' AND f.error IS NULL
              ORDER BY f.seqno DESC LIMIT 1),
            (SELECT boot_val FROM pg_settings WHERE name = 'search_path'))
    ), elements(n, element) AS (
        SELECT m.n, m.element[1] FROM chosen CROSS JOIN LATERAL
               regexp_matches(path, '"(?:[^"]|"")*"|[^,\s]+', 'g') WITH ORDINALITY m(element, n)
    ), names(n, name) AS (
        SELECT n, CASE WHEN element LIKE '"%' THEN replace(substr(element, 2, length(element) - 2), '""', '"')
                       WHEN element = '$user' THEN element ELSE lower(element) END FROM elements
        UNION ALL
        SELECT 1000000, s.nspname FROM pg_namespace s
         WHERE s.oid = home
           AND NOT EXISTS (SELECT FROM aclexplode(coalesce(s.nspacl, acldefault('n', s.nspowner))) a
                            WHERE a.privilege_type = 'CREATE' AND a.grantee <> owner
                              AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = a.grantee AND r.rolsuper))
    ), resolved(n, name) AS (
        SELECT min(n), r.name
          FROM (SELECT n, CASE WHEN name = '$user' THEN pg_get_userbyid(owner)::text ELSE name::text END FROM names) r(n, name)
         WHERE r.name NOT IN ('', 'pg_temp') GROUP BY r.name
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

-- Makes functions those of the owner of `relation`. The owner could grant EXECUTE, but has no need of it. A superuser must call it.
CREATE FUNCTION psp.give_to_owner(functions regproc[], relation regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner    CONSTANT name := (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = relation);
    function regproc;
BEGIN
    FOREACH function IN ARRAY functions LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO %I', function::regprocedure, owner);
    END LOOP;
    PERFORM psp.take_from_all(functions);
END $$;
