-- While the copy of a joining semi-primary is incomplete, its database lets in superusers, members of pg_monitor, psp's daemon and the role that
-- joins. All others would read from tables that are empty or half-filled, and nothing would tell them.

-- Who had the right to connect before the join. They get it back when the copy is whole.
CREATE TABLE psp.connect_rights (
    role       oid PRIMARY KEY,  -- 0: PUBLIC
    is_granted boolean NOT NULL, -- false: it has the right during the join only
    may_grant  boolean NOT NULL,
    is_owner   boolean NOT NULL DEFAULT false -- of the database; another one may have become it when the right comes back
);

CREATE VIEW psp.connect_acl AS
SELECT a.grantee, a.is_grantable, d.datdba AS owner
  FROM pg_database d CROSS JOIN LATERAL aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
 WHERE d.datname = current_database() AND a.privilege_type = 'CONNECT';

-- False: the role that joins may not change the rights of the database, and clients can connect.
CREATE FUNCTION psp.keep_clients_out() RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one record;
BEGIN
    IF NOT (SELECT pg_has_role(d.datdba, 'USAGE') FROM pg_database d WHERE d.datname = current_database()) THEN
        RETURN false;
    END IF;
    INSERT INTO psp.connect_rights
    SELECT a.grantee, true, bool_or(a.is_grantable), bool_or(a.grantee = a.owner) FROM psp.connect_acl a GROUP BY a.grantee;
    -- Where PUBLIC had the right, these got in by that. The daemon's role has a right of its own: daemon_role.sql.
    INSERT INTO psp.connect_rights
    SELECT r.oid, false, false, false FROM pg_roles r WHERE r.rolname IN ('pg_monitor', current_user)
        ON CONFLICT DO NOTHING;
    FOR one IN
        SELECT c.is_granted, r.rolname IN ('psp_semi_primary', 'pg_monitor', current_user) IS TRUE AS stays,
               CASE c.role WHEN 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END AS role
          FROM psp.connect_rights c LEFT JOIN pg_roles r ON r.oid = c.role
    LOOP
        IF NOT one.stays THEN
            EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM %s CASCADE', current_database(), one.role);
        ELSIF NOT one.is_granted THEN
            EXECUTE format('GRANT CONNECT ON DATABASE %I TO %s', current_database(), one.role);
        END IF;
    END LOOP;
    RETURN true;
END $$;

-- Roles that were dropped meanwhile are left out.
CREATE FUNCTION psp.let_clients_in() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one record;
    owner CONSTANT oid := (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database());
BEGIN
    DELETE FROM psp.connect_rights c WHERE c.role = owner AND NOT c.is_owner AND EXISTS (SELECT FROM psp.connect_rights o WHERE o.is_owner);
    UPDATE psp.connect_rights c SET role = owner WHERE c.is_owner;
    FOR one IN
        SELECT c.is_granted, c.may_grant, CASE c.role WHEN 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END AS role
          FROM psp.connect_rights c LEFT JOIN pg_roles r ON r.oid = c.role
         WHERE c.role = 0 OR r.oid IS NOT NULL
    LOOP
        IF one.is_granted THEN
            EXECUTE format('GRANT CONNECT ON DATABASE %I TO %s%s', current_database(), one.role,
                           CASE WHEN one.may_grant THEN ' WITH GRANT OPTION' ELSE '' END);
        ELSE
            EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM %s', current_database(), one.role);
        END IF;
    END LOOP;
    -- PostgreSQL only warns where the role that joined may not give rights any more. What is left then is tried again by psp schema release.
    DELETE FROM psp.connect_rights c
     WHERE NOT c.is_granted OR c.role <> 0 AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = c.role)
        OR c.role IN (SELECT a.grantee FROM psp.connect_acl a);
    IF EXISTS (SELECT FROM psp.connect_rights) THEN
        RAISE WARNING USING
            MESSAGE = format('psp: clients cannot connect to database %I yet', current_database()),
            DETAIL = format('Role %I may not give the right back.', current_user),
            HINT = 'GRANT CONNECT, as the owner from another database, or run SELECT psp.let_clients_in() as a superuser.';
    END IF;
END $$;

-- SECURITY DEFINER: the daemon's role ends the join, and has no right to change those of the database.
CREATE FUNCTION psp.on_whole_copy() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM psp.let_clients_in();
    RETURN NULL;
END $$;

CREATE TRIGGER psp_on_whole_copy AFTER UPDATE OF joining ON psp.identity
    FOR EACH ROW WHEN (OLD.joining AND NOT NEW.joining) EXECUTE FUNCTION psp.on_whole_copy();
ALTER TABLE psp.identity ENABLE ALWAYS TRIGGER psp_on_whole_copy;
