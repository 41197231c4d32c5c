-- What native mode has and views mode has not (sql/native/install/advisory_locks.sql, certified_reads.sql), refused in words.

CREATE FUNCTION psp.refuse_in_views_mode(what text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = pg_catalog.format('psp: there is no %s in views mode', what),
        HINT = 'Use native mode, or write a row that stands for what must not change.';
END $$;

CREATE FUNCTION psp.advisory_xact_lock(key bigint) RETURNS void
LANGUAGE sql AS $$ SELECT psp.refuse_in_views_mode('psp.advisory_xact_lock') $$;

CREATE FUNCTION psp.certify_read(relation regclass, VARIADIC key text[]) RETURNS void
LANGUAGE sql AS $$ SELECT psp.refuse_in_views_mode('psp.certify_read') $$;

CREATE FUNCTION psp.certify_read(relation regclass, VARIADIC key anyarray) RETURNS void
LANGUAGE sql AS $$ SELECT psp.refuse_in_views_mode('psp.certify_read') $$;

CREATE FUNCTION psp.certify_read_referrers(child regclass, foreign_key name, VARIADIC key text[]) RETURNS void
LANGUAGE sql AS $$ SELECT psp.refuse_in_views_mode('psp.certify_read_referrers') $$;

CREATE FUNCTION psp.certify_read_referrers(child regclass, foreign_key name, VARIADIC key anyarray) RETURNS void
LANGUAGE sql AS $$ SELECT psp.refuse_in_views_mode('psp.certify_read_referrers') $$;

CREATE FUNCTION psp.certify_read_table(relation regclass) RETURNS void
LANGUAGE sql AS $$ SELECT psp.refuse_in_views_mode('psp.certify_read_table') $$;
