-- The psp schema of a semi-primary in native mode, after semi_primary.sql. Applied by `psp schema adopt` and `psp schema
-- join`.
-- Application roles may do what grants.sql.j2 gives them, nothing else.

-- Open transactions that have written. Unlogged: they do not survive a crash, nor must these rows.
CREATE UNLOGGED TABLE psp.commit_intent (
    xid     xid8 PRIMARY KEY,
    step    smallint NOT NULL DEFAULT 0,     -- 0: written; 1: COMMIT said, the hook waits for other deferred triggers
    decided boolean NOT NULL DEFAULT false,  -- being decided: nothing more may be written
    ended   boolean NOT NULL DEFAULT false,  -- a key that others may refer to has ended: psp.note_ending (foreign_keys.sql) was called
    filler  boolean NOT NULL DEFAULT false   -- see psp.clean (functions.sql.j2)
) WITH (fillfactor = 50);

-- Empty. The commit hook locks it (ACCESS SHARE), and nothing else that an application role can call: the lock that this takes tells
-- that a transaction is in the hook, and must be neither ended nor mistaken for another.
CREATE TABLE psp.committing (nothing boolean);

-- What was captured. writeset/FORMAT.md describes op and payload. cmin is the order of capture.
-- psp.clean (functions.sql.j2) empties the table.
CREATE UNLOGGED TABLE psp.write_set (
    xid      xid8 NOT NULL,
    table_id integer NOT NULL,
    op       "char" NOT NULL,
    payload  bytea NOT NULL
) WITH (autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0.0);
ALTER TABLE psp.write_set ALTER COLUMN payload SET STORAGE EXTERNAL;
CREATE INDEX write_set_xid ON psp.write_set (xid);
