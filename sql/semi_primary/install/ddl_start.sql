-- Commands that do their damage in a first transaction of their own, before ddl_command_end: CONCURRENTLY. At
-- ddl_command_start only the tag and the client's message can be seen. That is enough here: PostgreSQL runs such
-- a command only if it is the whole message, and the guard lets only those pass that it understands completely.
-- The last part of the guard: what it compares with later is written down here.

-- The client's message without comments and semicolons around it. (A comment in a comment stays, and is not
-- understood.)
CREATE FUNCTION psp.bare_statement(message text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT regexp_replace(
               regexp_replace(message,
                              '^([ \t\n\r\f;]|--[^\n\r]*(\n|\r|$)|/\*([^*/]|/(?!\*)|\*(?!/))*\*/)+', ''),
               '([ \t\n\r\f;]|--[^\n\r]*$|/\*([^*/]|/(?!\*)|\*(?!/))*\*/)+$', '')
$$;

-- A pattern for a statement: each space stands for any white space, _ for perhaps some, and NAME for a name.
CREATE FUNCTION psp.statement_pattern(pattern text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT replace(replace(replace('^' || pattern || '$', ' ', '[ \t\n\r\f]+'), '_', '[ \t\n\r\f]*'),
                   'NAME', '(?:(?:[A-Za-z_]|[^\u0001-\u007f])(?:[A-Za-z0-9_$]|[^\u0001-\u007f])*|"(?:[^"]|"")+")')
$$;

-- A pattern in which each space stands for white space and comments. (A comment in a comment is not understood.)
CREATE FUNCTION psp.with_gaps(pattern text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT replace(pattern, ' ', '(?:[ \t\n\r\f]|--[^\n\r]*[\n\r]|/\*(?:[^*/]|/(?!\*)|\*(?!/))*\*/)+')
$$;

-- Whether a command may be one with CONCURRENTLY, which only a message of its own can be: no other word stands where that would stand.
-- What is not understood may be one.
CREATE FUNCTION psp.may_be_concurrent(tag text, message text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    first CONSTANT text := '(?:[a-z_"]|[^\u0001-\u007f])';  -- of a word
    name  CONSTANT text := '(?!(?:if|only)\M)(?:(?:[a-z_]|[^\u0001-\u007f])(?:[a-z0-9_$]|[^\u0001-\u007f])*|"(?:[^"]|"")+")';
BEGIN
    RETURN message ~* 'concurrently' AND psp.bare_statement(message) !~* psp.with_gaps(CASE tag
        WHEN 'CREATE INDEX' THEN
            '^(?!create\M)[a-z]|^create (?!(?:unique|index)\M)[a-z]|^create (?:unique )?index (?!concurrently\M)' || first
        WHEN 'DROP INDEX' THEN
            '^(?!drop\M)[a-z]|^drop (?!index\M)[a-z]|^drop index (?!concurrently\M)' || first
        ELSE concat('^(?!alter\M)[a-z]|^alter (?!table\M)[a-z]|^alter table (?:if exists )?(?:only )?',
                    name, '(?:(?: )?\.(?: )?', name, ')? (?!detach\M)', first) END);
END $$;

-- Whether it is a CREATE INDEX CONCURRENTLY that cannot refuse rows of other servers: not unique, on plain
-- columns. (lower, upper, coalesce, a cast to text, a field of a json value, and simple conditions are so common that they are let pass. What they
-- turn out to be is judged once more when the index is there: psp.check_index.)
CREATE FUNCTION psp.is_plain_index(statement text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    names CONSTANT text := 'NAME(?:\.NAME)?';
    value CONSTANT text := '(?:-?[0-9]+(?:\.[0-9]+)?|''[^''\\]*''(?:::' || names || ')?|TRUE|FALSE)';
    list  CONSTANT text := value || '(?:_,_' || value || ')*';
    path  CONSTANT text := 'NAME(?:_->>?_''[^''\\]*'')+';  -- in a json value
    atom  CONSTANT text := '(?:' || path || '|NAME(?:::text)?|CAST_\(_NAME AS text_\))';
    -- (\u005f is the letter _, which stands for white space in these patterns.)
    call  CONSTANT text := '(?:(?:lower|upper|md5|octet\u005flength)_\(_' || atom || '_\)|coalesce_\(_NAME(?:_,_(?:NAME|' || value || '))*_\))';
    key   CONSTANT text := '(?:NAME|CAST_\(_NAME AS text_\)|' || call || '|\(_(?:' || call || '|' || atom || ')_\))'
                           '(?: COLLATE ' || names || ')?(?: ' || names || ')?(?: (?:ASC|DESC))?(?: NULLS (?:FIRST|LAST))?';
    test  CONSTANT text := '(?:' || path || '|\(_' || path || '_\)|NAME)'
                           '(?: IS (?:NOT )?(?:NULL|TRUE|FALSE)|_(?:=|<>|<|>|<=|>=)_' || value || '| IN_\(_' || list || '_\))?';
BEGIN
    RETURN statement ~* psp.statement_pattern(concat(
        'CREATE INDEX CONCURRENTLY(?: IF NOT EXISTS)?(?: NAME)? ON(?: ONLY)? ', names, '(?: USING NAME)?',
        '_\(_', key, '(?:_,_', key, ')*_\)(?:_INCLUDE_\(_NAME(?:_,_NAME)*_\))?',
        '(?:_WITH_\([\w=.,]*\))?(?: TABLESPACE NAME)?',
        '(?:_WHERE \(?', test, '(?: AND ', test, ')*\)?)?'));
END $$;

-- The last part of a name with its schema, cut as PostgreSQL cuts names; null: it is none.
CREATE FUNCTION psp.bare_name(qualified text) RETURNS name
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names text[] := parse_ident(qualified);
BEGIN
    RETURN names[array_upper(names, 1)];
EXCEPTION WHEN invalid_parameter_value THEN
    RETURN NULL;
END $$;

-- Whether it makes an index of what is not captured: no captured relation, in any schema, has that name.
CREATE FUNCTION psp.is_index_elsewhere(statement text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT t.name IS NOT NULL AND NOT EXISTS (
               SELECT FROM psp.guarded_relations g WHERE g.kind = 'relation' AND g.relation_name = t.name)
      FROM psp.bare_name((regexp_match(statement, psp.statement_pattern(
               'CREATE(?: UNIQUE)? INDEX CONCURRENTLY(?: IF NOT EXISTS)?(?: NAME)? ON(?: ONLY)? (NAME(?:\.NAME)?)'
               '(?: |\().*'), 'i'))[1]) t(name)
$$;

-- Whether it drops an index whose name, in any schema, is that of no guard and of nothing of psp's.
CREATE FUNCTION psp.is_harmless_drop(statement text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT i.name IS NOT NULL
           AND NOT EXISTS (SELECT FROM psp.guarded_objects g WHERE g.kind = 'unique index' AND g.name = i.name)
           AND NOT EXISTS (SELECT FROM pg_class c
                            WHERE c.relnamespace = 'psp'::regnamespace AND c.relname = i.name)
      FROM psp.bare_name((regexp_match(statement, psp.statement_pattern(
               'DROP INDEX CONCURRENTLY(?: IF EXISTS)? (NAME(?:\.NAME)?)(?: (?:CASCADE|RESTRICT))?'),
               'i'))[1]) i(name)
$$;

-- Whether it makes no index: IF NOT EXISTS finds one of that name beside each captured table of its table's name. Nobody drops that one before the
-- statement has ended.
CREATE FUNCTION psp.finds_its_index(statement text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    names CONSTANT text[] := regexp_match(statement, psp.statement_pattern(
        'CREATE(?: UNIQUE)? INDEX CONCURRENTLY IF NOT EXISTS (NAME) ON(?: ONLY)? (NAME(?:\.NAME)?)(?: |\().*'), 'i');
    named record;
BEGIN
    FOR named IN SELECT g.schema_name, g.relation_name FROM psp.guarded_relations g
                  WHERE g.kind = 'relation' AND g.relation_name = psp.bare_name(names[2]) LOOP
        EXECUTE format('LOCK TABLE ONLY %I.%I IN ROW EXCLUSIVE MODE', named.schema_name, named.relation_name);
        IF NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                        WHERE (n.nspname, c.relname) = (named.schema_name, psp.bare_name(names[1]))) THEN
            RETURN false;
        END IF;
    END LOOP;
    RETURN FOUND;
END $$;

-- Whether it adds a partition to a captured table, or to one of that name. PostgreSQL would say only that psp's row
-- triggers cannot be put on the partition.
CREATE FUNCTION psp.adds_partition(statement text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT EXISTS (
        SELECT FROM regexp_matches(statement, btrim(psp.statement_pattern(
                   '(?: PARTITION OF|ALTER TABLE(?: IF EXISTS)?(?: ONLY)?) (NAME(?:\.NAME)?)'
                   '(?= FOR| DEFAULT| ATTACH|_\()'), '^$'), 'gi') m(found)
          JOIN psp.guarded_relations g
            ON g.relation_name = psp.bare_name(m.found[1]) AND g.kind = 'relation' AND g.definition LIKE 'p %')
$$;

-- hint: for a role whose statements stay here.
CREATE FUNCTION psp.refuse_concurrently(object text, command text, detail text, hint text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
    IF (SELECT i.mode FROM psp.identity i) = 'native' THEN
        IF psp.goes_with_stream() THEN
            hint := 'Leave out CONCURRENTLY, as psp.ddl does: SELECT psp.ddl($$…$$). Writers of the table wait until it is done. '
                    'With the server module, psp.concurrent_ddl = plain does it for statements that cannot be edited.';
        END IF;
    END IF;
    PERFORM psp.refuse_ddl(object, command, detail, hint);
END $function$;

CREATE FUNCTION psp.on_ddl_start() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    statement text := current_query();
    by_text CONSTANT text := 'psp judges such a command by its text, before it begins. ';
BEGIN
    IF tg_tag = 'CREATE SUBSCRIPTION' THEN
        PERFORM psp.refuse_ddl(
            'a subscription', tg_tag,
            'Its rows would be written here without being certified, and reach no other server.',
            'Subscribe in another database, and write the rows from there through an application.');
    ELSIF psp.is_schema_change() THEN
        RETURN;
    ELSIF tg_tag IN ('CREATE FUNCTION', 'CREATE PROCEDURE', 'CREATE AGGREGATE') THEN
        PERFORM set_config('psp.newest_oid', pg_nextoid('pg_proc', 'oid', 'pg_proc_oid_index')::text, true);  -- psp.note_local_object
        RETURN;
    ELSIF tg_tag IN ('CREATE TABLE', 'ALTER TABLE') AND statement ~* 'partition' AND psp.adds_partition(statement) THEN
        IF NOT psp.is_own_command() THEN  -- psp itself alters the partition, and the tables to which it refers
            PERFORM psp.refuse_partition('a partition', tg_tag);
        END IF;
        RETURN;
    ELSIF NOT psp.may_be_concurrent(tg_tag, statement) THEN
        RETURN;
    END IF;
    statement := psp.bare_statement(statement);
    IF tg_tag = 'CREATE INDEX' AND NOT psp.is_plain_index(statement) AND NOT psp.is_index_elsewhere(statement)
       AND NOT psp.finds_its_index(statement) THEN
        PERFORM psp.refuse_concurrently(
            'this index', 'CREATE INDEX CONCURRENTLY',
            by_text || 'On captured tables it lets plain columns pass, and no unique index.',
            'Leave out CONCURRENTLY, or make the index before adoption.');
    ELSIF tg_tag = 'DROP INDEX' AND NOT psp.is_harmless_drop(statement) THEN
        PERFORM psp.refuse_concurrently(
            'this index', 'DROP INDEX CONCURRENTLY',
            by_text || 'It lets no unique index of a captured table pass.',
            'DROP INDEX CONCURRENTLY schema.name without comments, for another index.');
    ELSIF tg_tag = 'ALTER TABLE' AND statement ~* 'detach' THEN
        PERFORM psp.refuse_concurrently('a partition', 'DETACH PARTITION CONCURRENTLY', 'It would leave this semi-primary only.', psp.way_to_change());
    END IF;
END $$;

SELECT psp.note_guarded_objects();
INSERT INTO psp.known_relations SELECT relation FROM psp.explained_relations;
ANALYZE psp.guarded_relations, psp.guarded_objects;
