-- How many items' free units are not the total less the reservations, or are too few. All in one snapshot.
SELECT count(*)
  FROM (SELECT 'car' AS kind, * FROM car_reservation
        UNION ALL SELECT 'flight', * FROM flight_reservation
        UNION ALL SELECT 'room', * FROM room_reservation) item
 WHERE numfree < 0
    OR numtotal - numfree <> (SELECT count(*) FROM reservation_info r WHERE r.kind = item.kind AND r.item_id = item.id)
