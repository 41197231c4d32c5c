-- Commands that do their damage in a first transaction of their own, before ddl_command_end: CONCURRENTLY. At
-- ddl_command_start only the tag and the client's message can be seen. That is enough here: PostgreSQL runs such a command
-- only if it is the whole message, and the guard lets only those pass that it understands completely.
-- The last part of the guard: what it must compare with later is written down here, and the event triggers are made.

-- The client's message without comments and semicolons around it. (A comment in a comment stays, and is not understood.)
CREATE FUNCTION psp.bare_statement(message text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT regexp_replace(
               regexp_replace(message, '^([ \t\n\r\f;]|--[^\n\r]*(\n|\r|$)|/\*([^*/]|/(?!\*)|\*(?!/))*\*/)+', ''),
               '([ \t\n\r\f;]|--[^\n\r]*$|/\*([^*/]|/(?!\*)|\*(?!/))*\*/)+$', '')
$$;

-- Whether it is a CREATE INDEX CONCURRENTLY that cannot refuse rows of other servers: not unique, on plain columns. (lower and
-- upper, and simple conditions, are so common that they are let pass.)
CREATE FUNCTION psp.is_plain_index(statement text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    s CONSTANT text := '[ \t\n\r\f]+';
    o CONSTANT text := '[ \t\n\r\f]*';
    ident CONSTANT text := '(([A-Za-z_]|[^\u0001-\u007f])([A-Za-z0-9_$]|[^\u0001-\u007f])*|"([^"]|"")+")';
    names CONSTANT text := format('%1$s(\.%1$s)?', ident);
    key   CONSTANT text := format('(%1$s|(lower|upper)\(%2$s%1$s%2$s\))(%3$sCOLLATE%3$s%4$s)?(%3$s%4$s)?(%3$s(ASC|DESC))?'
                                  '(%3$sNULLS%3$s(FIRST|LAST))?', ident, o, s, names);
    value CONSTANT text := format('(-?[0-9]+(\.[0-9]+)?|''[^''\\]*''(::%s)?|TRUE|FALSE)', names);
    test  CONSTANT text := format('%1$s(%2$sIS%2$s(NOT%2$s)?(NULL|TRUE|FALSE)|%3$s(=|<>|<|>|<=|>=)%3$s%4$s)?', ident, s, o, value);
BEGIN
    RETURN statement ~* concat(
        '^CREATE', s, 'INDEX', s, 'CONCURRENTLY', '(', s, 'IF', s, 'NOT', s, 'EXISTS)?(', s, ident, ')?', s, 'ON(', s, 'ONLY)?', s,
        names, '(', s, 'USING', s, ident, ')?', o, '\(', o, key, '(', o, ',', o, key, ')*', o, '\)',
        '(', o, 'INCLUDE', o, '\(', o, ident, '(', o, ',', o, ident, ')*', o, '\))?',
        '(', o, 'WITH', o, '\([A-Za-z0-9_=., ]*\))?(', o, 'TABLESPACE', s, ident, ')?',
        '(', o, 'WHERE', s, '\(?', test, '(', s, 'AND', s, test, ')*', '\)?)?$');
END $$;

-- The name of the index that it drops; null: the statement is not understood.
CREATE FUNCTION psp.index_to_drop(statement text) RETURNS name
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    found text[] := regexp_match(
        statement,
        replace('^DROP INDEX CONCURRENTLY( IF EXISTS)? (([A-Za-z0-9_$.]|[^\u0001-\u007f]|"([^"]|"")+")+)( (CASCADE|RESTRICT))?$',
                ' ', '[ \t\n\r\f]+'), 'i');
    names text[] := parse_ident(found[2]);
BEGIN
    RETURN names[array_upper(names, 1)];  -- cut to the length of a name, as PostgreSQL does
EXCEPTION WHEN invalid_parameter_value THEN
    RETURN NULL;
END $$;

-- Whether no index of that name, in any schema, is a guard or psp's.
CREATE FUNCTION psp.may_drop(index name) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT index IS NOT NULL
           AND NOT EXISTS (SELECT FROM psp.guarded_objects g WHERE g.kind = 'unique index' AND g.name = index)
           AND NOT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = 'psp'::regnamespace AND c.relname = index)
$$;

CREATE FUNCTION psp.on_ddl_start() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    statement text := current_query();
    by_text CONSTANT text := 'psp judges such a command by its text, before it begins. ';
BEGIN
    IF tg_tag = 'CREATE SUBSCRIPTION' THEN
        PERFORM psp.refuse_ddl('a subscription', tg_tag, 'Its rows would be written here without being certified, and reach no other server.',
                               'Subscribe in another database, and write the rows from there through an application.');
    ELSIF statement !~* 'concurrently' THEN
        RETURN;
    END IF;
    statement := psp.bare_statement(statement);
    IF tg_tag = 'CREATE INDEX' AND statement !~* '^(?!create)[a-z]' AND NOT psp.is_plain_index(statement) THEN
        PERFORM psp.refuse_ddl('this index', 'CREATE INDEX CONCURRENTLY', by_text || 'It lets plain columns pass, and no unique index.',
                               'Leave out CONCURRENTLY, or make the index before adoption.');
    ELSIF tg_tag = 'DROP INDEX' AND statement !~* '^(?!drop)[a-z]' AND NOT psp.may_drop(psp.index_to_drop(statement)) THEN
        PERFORM psp.refuse_ddl('this index', 'DROP INDEX CONCURRENTLY', by_text || 'It lets no unique index of a captured table pass.',
                               'DROP INDEX CONCURRENTLY schema.name without comments, for another index.');
    ELSIF tg_tag = 'ALTER TABLE' AND statement !~* '^(?!alter)[a-z]' AND statement ~* 'detach' THEN
        PERFORM psp.refuse_ddl('a partition', 'DETACH PARTITION CONCURRENTLY');
    END IF;
END $$;

SELECT psp.note_guarded_objects();
INSERT INTO psp.guarded_objects SELECT schema_name, relation_name, 'left out', relation_name, '' FROM psp.unknown_relations;

-- ENABLE ALWAYS: in a session with session_replication_role = replica, too.
CREATE EVENT TRIGGER psp_on_ddl_start ON ddl_command_start
    WHEN TAG IN ('CREATE INDEX', 'DROP INDEX', 'ALTER TABLE', 'CREATE SUBSCRIPTION')
    EXECUTE FUNCTION psp.on_ddl_start();
CREATE EVENT TRIGGER psp_on_ddl ON ddl_command_end EXECUTE FUNCTION psp.on_ddl();
CREATE EVENT TRIGGER psp_on_drop ON sql_drop EXECUTE FUNCTION psp.on_drop();
CREATE EVENT TRIGGER psp_on_rewrite ON table_rewrite EXECUTE FUNCTION psp.on_rewrite();
ALTER EVENT TRIGGER psp_on_ddl_start ENABLE ALWAYS;
ALTER EVENT TRIGGER psp_on_ddl ENABLE ALWAYS;
ALTER EVENT TRIGGER psp_on_drop ENABLE ALWAYS;
ALTER EVENT TRIGGER psp_on_rewrite ENABLE ALWAYS;
