-- The newest generation of requests (sql/native/install/requests.sql). It stands in the image: a record's length and two fields (number of
-- type, length, value), a uuid and the generation.
SELECT coalesce((
    SELECT ('x' || encode(substr(image, 37, 4), 'hex'))::bit(32)::integer
    FROM psp.data
    WHERE table_id = @REQUESTS_ID@ AND key <= record_send(ROW('00000000-0000-0000-0000-ffffffffffff'::uuid)) AND NOT deleted
    ORDER BY key DESC
    LIMIT 1), 0)
