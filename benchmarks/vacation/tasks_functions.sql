-- What replaces statements of tasks.sql in the form that calls functions where many want one value (docs/mrv.md): no
-- value is summed up to know whether something is left, and none goes through the view.

-- name: find_kind(int[])
SELECT id, price FROM kind_reservation
WHERE id = ANY ($1::int[]) AND psp_mrv.kind_reservation_numfree_gt(id, 0) ORDER BY price DESC, id LIMIT 1;

-- name: reserve_kind(int)
SELECT psp_mrv.kind_reservation_numfree_sub($1, 1);

-- name: release_kind(int[], int[])
SELECT psp_mrv.kind_reservation_numfree_add(released.item, released.n)
FROM unnest($1::int[], $2::int[]) AS released(item, n);
