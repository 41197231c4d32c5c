-- The role as which psp-primary logs in, and its rights: on psp's tables, and to end sessions of an older psp-primary that it
-- replaces. Run after schema.sql and after each upgrade. Without the right to create roles it makes no role: then the daemon
-- connects as the owner of the schema.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'psp_primary') THEN
        IF NOT (SELECT rolsuper OR rolcreaterole FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
            RETURN;
        END IF;
        CREATE ROLE psp_primary LOGIN;
    END IF;
    IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
        GRANT pg_signal_backend, pg_read_all_stats TO psp_primary;
    END IF;
    EXECUTE pg_catalog.format('GRANT CONNECT ON DATABASE %I TO psp_primary', pg_catalog.current_database());
    GRANT USAGE ON SCHEMA psp TO psp_primary;
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA psp TO psp_primary;
    GRANT EXECUTE ON FUNCTION psp.data_directory() TO psp_primary;
    GRANT USAGE ON ALL SEQUENCES IN SCHEMA psp TO psp_primary;
END $$;
