SELECT sp_id, name, released_at IS NOT NULL AS released, acked_t FROM psp.semi_primaries
