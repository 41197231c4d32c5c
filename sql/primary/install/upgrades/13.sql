-- From version 12.
-- psp primary switchover: on this timeline this server's psp-primary decides nothing more, so that a standby can be promoted in its place. On
-- another timeline it means nothing: the promoted standby has the row, too. ended_at: all that was ever decided here is before it in the WAL.
CREATE TABLE psp.hand_over (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    timeline text NOT NULL,
    limit_ms integer NOT NULL,  -- how long semi-primaries let COMMITs wait for the next primary
    ended_at timestamptz,
    target text NOT NULL,  -- the standby's address
    promoting_at timestamptz  -- from here on the standby may be promoted
);
ALTER TABLE psp.cluster ALTER COLUMN schema_version SET DEFAULT 13;
UPDATE psp.cluster SET schema_version = 13;
