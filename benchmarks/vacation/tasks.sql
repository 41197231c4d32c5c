-- The statements of the tasks. `kind` stands for car, flight and room: each such statement is made three times.
-- Several rows of a table are one statement, in the order of their keys: two tasks never wait for each other crosswise.

-- name: wait(float8)
SELECT pg_sleep($1);

-- name: add_customer(int)
INSERT INTO customer VALUES ($1) ON CONFLICT DO NOTHING;

-- name: delete_customer(int)
DELETE FROM customer WHERE id = $1;

-- name: add_reservations(int, text[], int[], int[])
INSERT INTO reservation_info (customer_id, kind, item_id, price)
SELECT $1, r.kind, r.item, r.price FROM unnest($2::text[], $3::int[], $4::int[]) AS r(kind, item, price);

-- name: delete_reservations(int)
DELETE FROM reservation_info WHERE customer_id = $1 RETURNING kind, item_id, price;

-- name: find_kind(int[])
SELECT id, price FROM kind_reservation WHERE id = ANY ($1::int[]) AND numfree > 0 ORDER BY price DESC, id LIMIT 1;

-- name: reserve_kind(int)
UPDATE kind_reservation SET numfree = numfree - 1 WHERE id = $1;

-- name: release_kind(int[], int[])
UPDATE kind_reservation SET numfree = numfree + released.n
FROM unnest($1::int[], $2::int[]) AS released(item, n)
WHERE id = released.item;

-- name: restock_kind(int[], int[])
UPDATE kind_reservation SET numtotal = numtotal + 100, numfree = numfree + 100, price = stocked.price
FROM unnest($1::int[], $2::int[]) AS stocked(item, price)
WHERE id = stocked.item;

-- name: withdraw_kind(int[])
UPDATE kind_reservation SET numtotal = numtotal - 100, numfree = numfree - 100
FROM unnest($1::int[]) AS withdrawn(item)
WHERE id = withdrawn.item AND numfree >= 100;
