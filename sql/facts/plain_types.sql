-- The type under all domains of each type; of one that is no domain itself. modifier: that of the innermost domain.
-- is_shared: the domains, if any, are PostgreSQL's own. Those of users have other OIDs in other databases.
SELECT t.oid AS type, u.plain, u.modifier, u.is_shared
  FROM pg_catalog.pg_type t
 CROSS JOIN LATERAL (
    WITH RECURSIVE under(type, modifier, is_domain, is_shared) AS (
        SELECT t.oid, -1, t.typtype = 'd', t.typtype <> 'd' OR t.oid < 16384 AND t.typarray <> 0
        UNION ALL
        SELECT b.oid, b.modifier, b.typtype = 'd', b.typtype <> 'd' OR b.oid < 16384 AND b.typarray <> 0
          FROM under CROSS JOIN LATERAL (
            SELECT b.*, d.typtypmod AS modifier
              FROM pg_catalog.pg_type d JOIN pg_catalog.pg_type b ON b.oid = d.typbasetype
             WHERE d.oid = under.type OFFSET 0) b
         WHERE under.is_domain
    )
    SELECT max(type) FILTER (WHERE NOT is_domain) AS plain, max(modifier) FILTER (WHERE NOT is_domain) AS modifier,
           bool_and(is_shared) AS is_shared
      FROM under) u
