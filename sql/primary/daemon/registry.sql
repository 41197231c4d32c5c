SELECT sp_id, name, released_at IS NOT NULL AS released, acked_t, join_t FROM psp.semi_primaries
