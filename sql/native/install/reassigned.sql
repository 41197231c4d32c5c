-- REASSIGN OWNED. It fires no event trigger, so it stays where it runs; psp.reassign_owned is one that goes with the stream. Where it has run
-- alone, captured tables have another owner here than at the other servers, which is the one that the guard has noted (kind 'owner' in
-- psp.guarded_objects). It stays noted while schema changes go on: none of a role with the new owner's rights goes to the
-- other servers, where that role might not own what it changes, and those that arrive find the noted owner.

-- Captured tables that belong to another role than the guard has noted.
CREATE FUNCTION psp.tables_of_others() RETURNS TABLE (relation oid, noted oid, owner oid)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT c.oid, o.definition::oid, c.relowner
      FROM psp.guarded_objects o JOIN pg_namespace n ON n.nspname = o.schema_name
      JOIN pg_class c ON (c.relnamespace, c.relname) = (n.oid, o.relation_name)
     WHERE o.kind = 'owner' AND o.definition <> c.relowner::text;
END $$;

-- Before a statement of a schema change: it may give tables other owners itself.
CREATE FUNCTION psp.note_reassigned() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO psp.reassigned (xid, relation, noted, owner)
    SELECT pg_current_xact_id(), t.* FROM psp.tables_of_others() t
        ON CONFLICT DO NOTHING;
END $$;

-- Where a schema change runs first: after it, of those noted before it; before a job, of those that there are (PostgreSQL drops no index
-- CONCURRENTLY in a transaction that has written anything).
CREATE FUNCTION psp.refuse_reassigned(role name, before_job boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    other record;
    noted text;
BEGIN
    IF before_job THEN
        SELECT t.* INTO other FROM psp.tables_of_others() t WHERE pg_has_role(role, t.owner, 'USAGE') ORDER BY t.relation LIMIT 1;
    ELSE
        SELECT r.relation, r.noted, r.owner INTO other FROM psp.reassigned r
         WHERE r.xid = pg_current_xact_id() AND pg_has_role(role, r.owner, 'USAGE') ORDER BY r.relation LIMIT 1;
    END IF;
    IF FOUND THEN
        SELECT o.rolname INTO noted FROM pg_roles o WHERE o.oid = other.noted;
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = format('psp: %I owns table %s at this semi-primary only', pg_get_userbyid(other.owner), other.relation::regclass),
            DETAIL = format('At the others it belongs to %s, where the statement could fail: REASSIGN OWNED stays at the server where it runs.',
                            coalesce(quote_ident(noted), 'a role that has been dropped here')),
            HINT = format('As a superuser: %sSELECT psp.reassign_owned(%L, %L), which goes to all semi-primaries.',
                          CASE WHEN noted IS NULL THEN 'CREATE ROLE with the name of the old owner, and ' END,
                          coalesce(noted, 'old'), pg_get_userbyid(other.owner));
    END IF;
END $$;

-- Where one arrives: tables of which its role has the rights elsewhere.
CREATE FUNCTION psp.lend_reassigned(role name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found record;
BEGIN
    FOR found IN
        UPDATE psp.reassigned r SET is_lent = true FROM pg_roles o
         WHERE r.xid = pg_current_xact_id() AND o.oid = r.noted AND pg_has_role(role, o.oid, 'USAGE')
        RETURNING r.relation::regclass AS relation, o.rolname
    LOOP
        PERFORM psp.run_own_command(format('ALTER TABLE %s OWNER TO %I', found.relation, found.rolname));
    END LOOP;
END $$;

-- After it. A table to which it has given another owner counts as changed.
CREATE FUNCTION psp.return_reassigned() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found record;
BEGIN
    DELETE FROM psp.reassigned r USING pg_class c
     WHERE r.xid = pg_current_xact_id() AND r.is_lent AND c.oid = r.relation AND c.relowner <> r.noted;
    FOR found IN
        SELECT c.oid::regclass AS relation, pg_get_userbyid(r.owner) AS owner
          FROM psp.reassigned r JOIN pg_class c ON c.oid = r.relation WHERE r.xid = pg_current_xact_id() AND r.is_lent
    LOOP
        PERFORM psp.run_own_command(format('ALTER TABLE %s OWNER TO %I', found.relation, found.owner));
    END LOOP;
END $$;

-- After what has changed was noted.
CREATE FUNCTION psp.keep_noted_owners() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE psp.guarded_objects o SET definition = r.noted::text
      FROM psp.reassigned r JOIN pg_class c ON (c.oid, c.relowner) = (r.relation, r.owner) JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE r.xid = pg_current_xact_id()
       AND (o.schema_name, o.relation_name, o.kind, o.definition) = (n.nspname, c.relname, 'owner', r.owner::text);
END $$;

-- Gives what a role owns to another role, at every server and at those that join later, like psp.ddl. For superusers: PostgreSQL asks for the
-- rights of both roles, and the new owner may make nothing in psp's schema.
CREATE FUNCTION psp.reassign_owned(old_role name, new_role name) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO psp.new_statement (settings, statement)
    VALUES (psp.statement_settings()
            OPERATOR(pg_catalog.||) pg_catalog.jsonb_build_object('reassigned', pg_catalog.jsonb_build_array(old_role, new_role)),
            pg_catalog.format('REASSIGN OWNED BY %I TO %I', old_role, new_role));
END $$;

-- Here and where it arrives. There REASSIGN OWNED may have run alone before, and the old role may be gone.
CREATE FUNCTION psp.run_reassignment(roles jsonb, here boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old_role CONSTANT name := roles ->> 0;
    new_role CONSTANT name := roles ->> 1;
BEGIN
    IF here OR EXISTS (SELECT FROM pg_roles r WHERE r.rolname = old_role) THEN
        PERFORM psp.check_role_of_statement(old_role), psp.lend_reassigned(old_role);
        EXECUTE format('REASSIGN OWNED BY %I TO %I', old_role, new_role);
        PERFORM psp.return_reassigned();
    END IF;
    DELETE FROM psp.reassigned r
     WHERE r.xid = pg_current_xact_id() AND pg_get_userbyid(r.owner) = new_role AND NOT EXISTS (SELECT FROM pg_roles o WHERE o.oid = r.noted);
END $$;
