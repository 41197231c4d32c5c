-- What the refusal of a schema change advises: statements to type, with the roles' names.

-- The role of the application that should change the schema: one that may, otherwise the owner of most captured tables. Null: superusers own all.
CREATE FUNCTION psp.role_to_change(OUT name name, OUT may_change boolean)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT r.rolname, has_function_privilege(r.oid, 'psp.ddl(text)', 'EXECUTE') INTO name, may_change
      FROM pg_roles r
      LEFT JOIN (SELECT c.relowner, count(*) AS tables
                   FROM psp.captured_relations k JOIN pg_class c ON c.oid = k.relation AND c.relnamespace <> 'psp'::regnamespace
                  GROUP BY c.relowner) o ON o.relowner = r.oid
     WHERE psp.may_change_schema(r.rolname) AND (o.tables > 0 OR has_function_privilege(r.oid, 'psp.ddl(text)', 'EXECUTE'))
     ORDER BY 2 DESC, o.tables DESC NULLS LAST, r.rolname
     LIMIT 1;
END $$;

CREATE FUNCTION psp.grant_of_ddl(role name) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT pg_catalog.format('GRANT EXECUTE ON FUNCTION psp.ddl(text) TO %I;', role)
$$;

-- What to do instead. (Of a role whose statements are schema changes, only one whose text is not known is none.)
CREATE FUNCTION psp.way_to_change() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    everywhere CONSTANT text := ' Its statements then run at all semi-primaries (docs/schema-changes.md).';
    here       name;
    other      record;
BEGIN
    IF psp.is_schema_change() OR (SELECT i.mode FROM psp.identity i) = 'views' THEN
        RETURN 'Release the database with "psp schema release", change it and adopt it again.';
    END IF;
    here := psp.role_of_statement();  -- which is in native mode only
    IF psp.goes_with_stream() THEN
        RETURN 'The text of the statement is not known: it is in a function that is not in PL/pgSQL. SELECT psp.ddl($$…$$) runs the text of a statement at all semi-primaries.';
    ELSIF psp.may_change_schema(here) AND has_function_privilege(here, 'psp.ddl(text)', 'EXECUTE') THEN
        RETURN 'Type RESET psp.schema_changes; for a change of all semi-primaries: the setting keeps statements of this session here.';
    ELSIF psp.may_change_schema(here) THEN
        RETURN 'As a superuser, at each semi-primary: ' || psp.grant_of_ddl(here) || everywhere;
    END IF;
    SELECT * INTO other FROM psp.role_to_change();
    RETURN CASE
        WHEN other.name IS NULL THEN 'No statement of a superuser goes to the others: give the tables to a role that is none, and let it change them.'
        WHEN other.may_change THEN format('SET ROLE %I; and run it again.', other.name)
        ELSE format('As a superuser, at each semi-primary: %s SET ROLE %I; and run it again.', psp.grant_of_ddl(other.name), other.name) END || everywhere;
END $function$;
