-- The guard keys of a table's unique indexes and exclusion constraints whose expressions or predicates call code of users: psp.guard_N tells the key
-- that a row takes, null if it takes none. It belongs to the table's owner (owners.sql). Guards of plain
-- columns, or of PostgreSQL's own functions, are computed where the row is captured, which costs less.

-- A template with each {name} replaced by the part of that name; null if there is none. What is filled in is not read again, and
-- braces stand for nothing else.
CREATE FUNCTION psp.fill(template text, parts jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT CASE WHEN bool_and(p.part IS NOT NULL) THEN string_agg(p.part, '' ORDER BY p.n) END
              FROM (SELECT t.n, CASE WHEN t.n % 2 = 1 THEN t.piece ELSE parts ->> t.piece END AS part
                      FROM unnest(string_to_array(translate(template, '}', '{'), '{')) WITH ORDINALITY t(piece, n)) p);
END $$;

-- Names, quoted, with something before each.
CREATE FUNCTION psp.name_list(names jsonb, before text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT coalesce(string_agg(before || quote_ident(coalesce(n.value ->> 'name', n.value #>> '{}')), ', ' ORDER BY n.ordinality), '')
              FROM jsonb_array_elements(names) WITH ORDINALITY n);
END $$;

-- SQL: whether a row takes the guard. NULL in a value: it does not, unless NULLs are one value. An exclusion constraint never finds
-- a row with a NULL in a conflict.
CREATE FUNCTION psp.guard_condition(guard jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN coalesce('(' || (guard ->> 'predicate') || ')', 'true')
           || CASE WHEN (guard ->> 'nulls_not_distinct')::boolean THEN ''
                   ELSE (SELECT coalesce(string_agg(format(' AND (%s) IS NOT NULL', e.value), '' ORDER BY e.ordinality), '')
                           FROM jsonb_array_elements_text(guard -> 'expressions') WITH ORDINALITY e) END
           || (SELECT coalesce(string_agg(' AND ' || psp.is_there(o.value), '' ORDER BY o.ordinality), '')
                 FROM jsonb_array_elements_text(guard -> 'others') WITH ORDINALITY o);
END $$;

-- SQL for the key of a guard, where no function of the owner has to tell it. An exclusion constraint that compares nothing by equality
-- has one key for the whole table: the empty record.
CREATE FUNCTION psp.guard_key(guard jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT format('pg_catalog.record_send(ROW(%s))', string_agg(e.value, ', ' ORDER BY e.ordinality))
              FROM jsonb_array_elements_text(guard -> 'expressions') WITH ORDINALITY e);
END $$;

-- Makes psp.guard_N of a table's guards. relation: the table, quoted; in views mode T_persistent. Variables are called as the
-- columns, and have their types and collations.
CREATE FUNCTION psp.create_guards(facts jsonb, relation text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    template CONSTANT text := $template$
DECLARE
{variables}
BEGIN
    RETURN CASE WHEN {condition}
        THEN {key} END;
END $template$;
    guard     jsonb;
    functions regproc[];
BEGIN
    FOR guard IN SELECT g.value FROM jsonb_array_elements(facts -> 'guards') g WHERE g.value -> 'arguments' <> '[]' LOOP
        EXECUTE (
            SELECT format('CREATE OR REPLACE FUNCTION psp.guard_%s(%s) RETURNS pg_catalog.bytea LANGUAGE plpgsql SECURITY DEFINER '
                          'SET search_path = %s AS %L',
                          guard ->> 'guard_id', string_agg(a.value ->> 'type', ', ' ORDER BY a.ordinality),
                          facts ->> 'search_path',
                          psp.fill(template, jsonb_build_object(
                              'variables', string_agg(format('    %1$I CONSTANT %2$s.%1$I%%TYPE := $%3$s;', a.value ->> 'name', relation,
                                                             a.ordinality), E'\n' ORDER BY a.ordinality),
                              'condition', psp.guard_condition(guard), 'key', psp.guard_key(guard))))
              FROM jsonb_array_elements(guard -> 'arguments') WITH ORDINALITY a);
        functions := functions || format('psp.guard_%s', guard ->> 'guard_id')::regproc;
    END LOOP;
    IF functions IS NOT NULL THEN
        PERFORM psp.give_to_owner(functions, relation::regclass);
    END IF;
END $$;
