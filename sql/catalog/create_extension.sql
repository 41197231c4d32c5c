-- Makes an extension as the role that owns it elsewhere, in a database that joins. {quote}, {owner}, {name}, {statement}: literals.
-- A role may drop and alter at each server what it has made at one. It may have lost the right to make it, so it has that for a moment.
-- Where the role that joins is no superuser, or the extension is not a trusted one, it stays the joining role's.
DO {quote}
DECLARE
    before CONSTANT text := pg_catalog.current_setting('role');
    lacks_right boolean;
BEGIN
    IF (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = current_user)
       AND EXISTS (SELECT FROM pg_catalog.pg_available_extension_versions v WHERE v.name = {name} AND v.trusted)
       AND NOT EXISTS (SELECT FROM pg_catalog.pg_extension e WHERE e.extname = {name}) THEN
        lacks_right := NOT pg_catalog.has_database_privilege({owner}, pg_catalog.current_database(), 'CREATE');
        IF lacks_right THEN
            EXECUTE pg_catalog.format('GRANT CREATE ON DATABASE %I TO %I', pg_catalog.current_database(), {owner});
        END IF;
        PERFORM pg_catalog.set_config('role', {owner}, true);
        EXECUTE {statement};
        PERFORM pg_catalog.set_config('role', before, true);
        IF lacks_right THEN
            EXECUTE pg_catalog.format('REVOKE CREATE ON DATABASE %I FROM %I', pg_catalog.current_database(), {owner});
        END IF;
    ELSE
        EXECUTE {statement};
    END IF;
END {quote};
