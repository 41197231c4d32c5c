-- Queues psp.commit_intent's deferred trigger.
WITH begun AS (INSERT INTO psp.commit_intent (xid) VALUES (pg_current_xact_id()) ON CONFLICT DO NOTHING RETURNING xid)
SELECT count(*)::text FROM begun
