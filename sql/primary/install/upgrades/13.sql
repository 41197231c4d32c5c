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
-- The generation of a request in its image (sql/native/install/requests.sql): a record's length and two fields (number of type, length, value), a uuid
-- and the generation.
CREATE FUNCTION psp.request_generation(image bytea) RETURNS integer
LANGUAGE sql IMMUTABLE AS $$
    SELECT ('x' || encode(substr(image, 37, 4), 'hex'))::bit(32)::integer
$$;
ALTER TABLE psp.cluster ALTER COLUMN schema_version SET DEFAULT 13;
UPDATE psp.cluster SET schema_version = 13;
