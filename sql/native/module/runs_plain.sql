-- Whether a schema change of relation $1 goes with the stream, and the relation with it.
SELECT CASE WHEN psp.goes_with_stream()
                 AND (EXISTS (SELECT FROM psp.captured_relations r WHERE r.relation = $1::oid)
                      OR EXISTS (SELECT FROM pg_class c WHERE c.oid = $1::oid AND c.relkind = 'm')) THEN 'yes' END
