-- Whether a psp-mrv takes reports out of psp_mrv.outcomes: its status worker's session holds this lock.
SELECT EXISTS (SELECT FROM pg_locks l
                WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
                  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                  AND (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('psp-mrv', 0)) AS is_served
