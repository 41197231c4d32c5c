-- What no event trigger can refuse (it was done while they were off, or by a sequence itself) is seen by the daemon
-- and told in psp.status and in its log.

-- Called when the daemon starts. Another major version of PostgreSQL may write definitions otherwise: if everything
-- that was noted is still there by name, it is noted again. Until then the guard refuses each change of a captured
-- relation.
CREATE FUNCTION psp.refresh_guards() RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    missing bigint;
BEGIN
    IF (SELECT g.version FROM psp.guarded_by g) = psp.major_version() THEN
        RETURN false;
    END IF;
    SELECT count(*) INTO missing
      FROM (SELECT schema_name, relation_name, kind, name FROM psp.guarded_objects
            EXCEPT
            SELECT schema_name, relation_name, kind, name
              FROM psp.guarded_state(ARRAY(SELECT relation FROM psp.captured_relations))) m;
    -- pg_upgrade forgets that checks of deferrable constraints are ENABLE ALWAYS (sql/native/install/create_capture.sql).
    missing := missing + (SELECT count(*) FROM pg_trigger t JOIN psp.captured_relations r ON r.relation = t.tgrelid
                           WHERE t.tgfoid = 'unique_key_recheck'::regproc AND t.tgenabled <> 'A'
                             AND (SELECT i.mode FROM psp.identity i) = 'native');
    IF missing = 0 THEN
        PERFORM psp.note_guarded_objects();
    END IF;
    RETURN missing = 0;
END $$;

CREATE FUNCTION psp.guard_problems() RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    SELECT format('event trigger %s is missing or not ENABLE ALWAYS: schema changes are not refused', n.name)
      FROM unnest(ARRAY['psp_on_ddl_start', 'psp_on_ddl', 'psp_on_drop', 'psp_on_rewrite']) n(name)
      LEFT JOIN pg_event_trigger t ON t.evtname = n.name
     WHERE t.evtenabled IS DISTINCT FROM 'A' AND (SELECT i.guarded FROM psp.identity i)
    UNION ALL
    SELECT 'PostgreSQL was upgraded, and the schema has changed: release the database and adopt it again'
      FROM psp.guarded_by WHERE version <> psp.major_version()
    UNION ALL
    SELECT format('%I.%I is gone, or is not what was adopted', schema_name, relation_name)
      FROM psp.changed_relations
    UNION ALL
    SELECT CASE c.kind WHEN 'owner' THEN format('the owner of %I.%I has changed, perhaps at this semi-primary only', c.schema_name, c.relation_name)
                       ELSE format('%s %I of %I.%I has changed', c.kind, c.name, c.schema_name, c.relation_name) END
      FROM psp.guarded_by b, psp.changed_objects(ARRAY(
               SELECT o.oid FROM psp.guarded_relations g JOIN pg_namespace n ON n.nspname = g.schema_name
                 JOIN pg_class o ON o.relnamespace = n.oid AND o.relname = g.relation_name)) c
     WHERE b.version = psp.major_version()
    UNION ALL
    SELECT format('%s exists here only: its rows or numbers are not certified', relation::regclass)
      FROM psp.unknown_relations
    UNION ALL
    SELECT format('%s %s is here only: EXPLAIN ANALYZE has made it, and no schema change can name it', e.kind, e.relation::regclass)
      FROM psp.explained_relations e WHERE EXISTS (SELECT FROM psp.identity i WHERE i.mode = 'native')
    UNION ALL
    SELECT format('%s inherits from %s, here only', child::regclass, parent::regclass) FROM psp.stray_children
    UNION ALL
    SELECT format('subscription %s may write rows here that no other server gets', s.subname)
      FROM pg_subscription s
     WHERE s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
    UNION ALL
    SELECT format('prepared transaction %L may keep rows of other servers away: only its owner or a superuser can end it',
                  p.gid)
      FROM pg_prepared_xacts p
     WHERE p.database = current_database() AND p.prepared NOT BETWEEN now() - interval '1 minute' AND now()
    UNION ALL
    SELECT format('job %s.%s has failed: %s', change, statement_n, last_error) FROM psp.jobs WHERE state = 'failed'
    UNION ALL
    SELECT format('materialized view %s lacks rows of a schema change, REFRESH it: %s', c.oid::regclass, u.error)
      FROM psp.unfilled_views u JOIN pg_class c ON c.oid = u.relation
    UNION ALL
    SELECT p.problem FROM psp.set_aside_problems p
    UNION ALL
    SELECT format('clients cannot connect to database %I: the role that joined may not give their rights back; GRANT CONNECT from another database, or run SELECT psp.let_clients_in() as a superuser', current_database())
      FROM psp.connect_rights c WHERE NOT (SELECT i.joining FROM psp.identity i) AND c.role NOT IN (SELECT a.grantee FROM psp.connect_acl a) HAVING count(*) > 0
    UNION ALL
    SELECT format('trigger %I of %s is set aside, it fires for rows that are written here only: %s', a.name, a.relation::regclass, a.problem)
      FROM psp.triggers_aside a JOIN pg_trigger t ON (t.tgrelid, t.tgname, t.tgenabled) = (a.relation, a.name, 'O')
    UNION ALL
    SELECT format('sequence %I.%I: %s numbers are left for this semi-primary',
                  schema_name, sequence_name, left_over)
      FROM psp.sequences_near_their_end
$$;

-- The first few of them; null: none. A table that somebody changes is not waited for: the daemon, which asks, has other things to do.
-- (Of numbers that are left only the first digit, or it would be news each time.)
CREATE FUNCTION psp.guard_warnings() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' SET standard_conforming_strings = on AS $$
    SELECT string_agg(regexp_replace(p.problem, '(: \d)(\d*)( numbers)', '\1…\3'), '; ' ORDER BY p.n)
               FILTER (WHERE p.n <= 5)
           || CASE WHEN count(*) > 5 THEN format('; and %s more', count(*) - 5) ELSE '' END
      FROM psp.guard_problems() WITH ORDINALITY p(problem, n)
$$;
