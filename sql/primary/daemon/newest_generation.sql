-- The newest generation of requests (sql/native/install/requests.sql).
SELECT coalesce((
    SELECT psp.request_generation(image)
    FROM psp.data
    WHERE table_id = @REQUESTS_ID@ AND key <= record_send(ROW('00000000-0000-0000-0000-ffffffffffff'::uuid)) AND NOT deleted
    ORDER BY key DESC
    LIMIT 1), 0)
