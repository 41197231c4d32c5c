-- Copies of the operators, functions and types of pg_catalog, in a schema of their own. Each tells if it runs as anybody but the
-- application's role. A copy for values of any type takes texts.
CREATE SCHEMA shadow;
GRANT ALL ON SCHEMA shadow TO PUBLIC;

CREATE FUNCTION shadow.tell(what text) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF current_user <> 'application' THEN
        RAISE WARNING 'shadow of % runs as %', what, current_user;
    END IF;
    RETURN true;
END $$;

CREATE FUNCTION shadow.type_of(type oid) RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN type::regtype::text IN ('anyarray', 'anycompatiblearray') THEN 'pg_catalog.text[]'
                WHEN type::regtype::text IN ('anyelement', 'anynonarray', 'anycompatible') THEN 'pg_catalog.text'
                WHEN t.typtype <> 'p' THEN 'pg_catalog.' || quote_ident(t.typname) END
      FROM pg_type t WHERE t.oid = type
$$;

DO $do$
DECLARE
    copied record;
BEGIN
    FOR copied IN
        SELECT 'f' || row_number() OVER () AS function, o.oprname AS name,
               shadow.type_of(o.oprleft) AS l, shadow.type_of(o.oprright) AS r, shadow.type_of(o.oprresult) AS result
          FROM pg_operator o
         WHERE o.oprkind = 'b' AND o.oprnamespace = 'pg_catalog'::regnamespace
           AND shadow.type_of(o.oprleft) || shadow.type_of(o.oprright) || shadow.type_of(o.oprresult) IS NOT NULL
    LOOP
        BEGIN
            EXECUTE format('CREATE FUNCTION shadow.%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS $f$BEGIN PERFORM shadow.tell(%L); '
                           'RETURN $1 OPERATOR(pg_catalog.%s) $2; END$f$',
                           copied.function, copied.l, copied.r, copied.result,
                           format('%s %s %s', copied.l, copied.name, copied.r), copied.name);
            EXECUTE format('CREATE OPERATOR shadow.%s (leftarg = %s, rightarg = %s, function = shadow.%s)',
                           copied.name, copied.l, copied.r, copied.function);
        EXCEPTION WHEN duplicate_function THEN  -- a copy for any value is there
            NULL;
        END;
    END LOOP;
    FOR copied IN
        SELECT p.proname AS name, shadow.type_of(p.prorettype) AS result, a.types, a.arguments
          FROM pg_proc p
         CROSS JOIN LATERAL (SELECT coalesce(string_agg(shadow.type_of(t.type), ', ' ORDER BY t.n), '') AS types,
                                    coalesce(string_agg('$' || t.n, ', ' ORDER BY t.n), '') AS arguments,
                                    coalesce(bool_and(shadow.type_of(t.type) IS NOT NULL), true) AS are_known
                               FROM unnest(p.proargtypes) WITH ORDINALITY t(type, n)) a
         WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND NOT p.proretset AND p.provariadic = 0
           AND p.proargmodes IS NULL AND p.pronargs <= 4 AND a.are_known AND shadow.type_of(p.prorettype) IS NOT NULL
           AND p.proname !~ '(in|out|send|recv)$'
    LOOP
        BEGIN
            EXECUTE format('CREATE FUNCTION shadow.%I(%s) RETURNS %s LANGUAGE plpgsql AS $f$BEGIN PERFORM shadow.tell(%L); '
                           'RETURN pg_catalog.%I(%s); END$f$',
                           copied.name, copied.types, copied.result, copied.name, copied.name, copied.arguments);
        EXCEPTION WHEN duplicate_function THEN
            NULL;
        END;
    END LOOP;
    FOR copied IN
        SELECT t.typname AS name FROM pg_type t
         WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype = 'b' AND t.typcategory <> 'A'
    LOOP
        EXECUTE format('CREATE DOMAIN shadow.%1$I AS pg_catalog.%1$I CHECK (shadow.tell(%1$L))', copied.name);
    END LOOP;
    CREATE DOMAIN shadow.record AS pg_catalog.text CHECK (shadow.tell('record'));
END $do$;
