-- %(rows)s rows in each table, as STAMP makes them: 100 to 500 of each item at 50 to 550; the reservations are taken off.
SELECT setseed(0.5);
INSERT INTO customer SELECT generate_series(1, %(rows)s);
INSERT INTO reservation_info (customer_id, kind, item_id, price)
SELECT 1 + floor(random() * %(rows)s), (ARRAY['car', 'flight', 'room'])[1 + i %% 3], 1 + floor(random() * %(rows)s),
       50 + 10 * floor(random() * 51)
  FROM generate_series(1, %(rows)s) i;
INSERT INTO car_reservation
SELECT id, n, n - (SELECT count(*) FROM reservation_info WHERE kind = 'car' AND item_id = items.id), price
  FROM (SELECT id, 100 * (1 + floor(random() * 5)) AS n, 50 + 10 * floor(random() * 51) AS price
          FROM generate_series(1, %(rows)s) id OFFSET 0) items;
INSERT INTO flight_reservation
SELECT id, n, n - (SELECT count(*) FROM reservation_info WHERE kind = 'flight' AND item_id = items.id), price
  FROM (SELECT id, 100 * (1 + floor(random() * 5)) AS n, 50 + 10 * floor(random() * 51) AS price
          FROM generate_series(1, %(rows)s) id OFFSET 0) items;
INSERT INTO room_reservation
SELECT id, n, n - (SELECT count(*) FROM reservation_info WHERE kind = 'room' AND item_id = items.id), price
  FROM (SELECT id, 100 * (1 + floor(random() * 5)) AS n, 50 + 10 * floor(random() * 51) AS price
          FROM generate_series(1, %(rows)s) id OFFSET 0) items;
