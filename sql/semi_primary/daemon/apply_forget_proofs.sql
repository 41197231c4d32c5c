-- Own commits in ($1, $2] are below W now.
DELETE FROM psp.applied WHERE global_t > $1 AND global_t <= $2
