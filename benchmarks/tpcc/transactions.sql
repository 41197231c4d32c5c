-- The statements of the five transactions (clauses 2.4 to 2.8). `-- name: NAME(TYPES)` begins each; the driver sends
-- them with the values written in (--prepared=off) or by PREPARE and EXECUTE (--prepared=on).
-- Accesses to several rows of one table are one statement, so that a distant server costs few round trips: the
-- comparison is with a client that does what it can.

-- name: customer_by_name(int, int, text)
SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first;

-- ---- New-Order ----------------------------------------------------------------------------------

-- name: new_order_customer(int, int, int)
SELECT c_discount, c_last, c_credit, w_tax
FROM customer JOIN warehouse ON w_id = c_w_id
WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3;

-- name: new_order_district(int, int)
UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2
RETURNING d_next_o_id - 1, d_tax;

-- name: new_order_order(int, int, int, int, int, int)
INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
VALUES ($1, $2, $3, $4, now(), $5, $6);

-- name: new_order_queue(int, int, int)
INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3);

-- name: new_order_items(int[])
SELECT i_id, i_price, i_name, i_data FROM item WHERE i_id = ANY ($1::int[]);

-- name: new_order_stock(int[], int[], int[], int, int)
UPDATE stock
SET s_quantity = CASE WHEN s_quantity - quantity >= 10 THEN s_quantity - quantity
                      ELSE s_quantity - quantity + 91 END,
    s_ytd = s_ytd + quantity,
    s_order_cnt = s_order_cnt + 1,
    s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = $4 THEN 0 ELSE 1 END
FROM unnest($1::int[], $2::int[], $3::int[]) AS line(item, supply, quantity)
WHERE s_w_id = supply AND s_i_id = item
RETURNING s_w_id, s_i_id, s_quantity, s_data,
          CASE $5 WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03 WHEN 4 THEN s_dist_04
                  WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08
                  WHEN 9 THEN s_dist_09 ELSE s_dist_10 END;

-- name: new_order_lines(int, int, int, int[], int[], int[], int[], numeric[], text[])
INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
                        ol_dist_info)
SELECT $1, $2, $3, line.*
FROM unnest($4::int[], $5::int[], $6::int[], $7::int[], $8::numeric[], $9::text[]) AS line;

-- ---- Payment: the rows that everybody wants last, so that they are locked for the shortest time -------------------

-- name: payment_customer(int, int, int, numeric, int, int)
UPDATE customer
SET c_balance = c_balance - $4,
    c_ytd_payment = c_ytd_payment + $4,
    c_payment_cnt = c_payment_cnt + 1,
    c_data = CASE WHEN c_credit = 'BC'
                  THEN left(concat_ws(' ', c_id, c_d_id, c_w_id, $6, $5, $4, c_data), 500)
                  ELSE c_data END
WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3
RETURNING c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit,
          c_credit_lim, c_discount, c_balance, CASE WHEN c_credit = 'BC' THEN left(c_data, 200) END;

-- name: payment_district(int, int, numeric)
UPDATE district SET d_ytd = d_ytd + $3 WHERE d_w_id = $1 AND d_id = $2
RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip;

-- name: payment_warehouse(int, numeric)
UPDATE warehouse SET w_ytd = w_ytd + $2 WHERE w_id = $1
RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip;

-- name: payment_history(int, int, int, int, int, numeric)
INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
SELECT $1, $2, $3, $4, $5, now(), $6, w_name || '    ' || d_name
FROM warehouse JOIN district ON d_w_id = w_id
WHERE w_id = $5 AND d_id = $4;

-- ---- Order-Status -------------------------------------------------------------------------------

-- name: order_status_customer(int, int, int)
SELECT c_first, c_middle, c_last, c_balance FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3;

-- name: order_status_order(int, int, int)
SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3
ORDER BY o_id DESC LIMIT 1;

-- name: order_status_lines(int, int, int)
SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3;

-- ---- Delivery, of all districts of a warehouse in one transaction -----------------------------------------------

-- name: delivery_oldest(int)
DELETE FROM new_order
USING generate_series(1, 10) AS district_number,
      LATERAL (SELECT no_o_id AS oldest FROM new_order WHERE no_w_id = $1 AND no_d_id = district_number
               ORDER BY no_o_id LIMIT 1) AS queue
WHERE no_w_id = $1 AND no_d_id = district_number AND no_o_id = oldest
RETURNING no_d_id, no_o_id;

-- name: delivery_orders(int, int[], int[], int)
UPDATE orders SET o_carrier_id = $4
FROM unnest($2::int[], $3::int[]) AS delivered(d, o)
WHERE o_w_id = $1 AND o_d_id = d AND o_id = o
RETURNING o_d_id, o_c_id;

-- name: delivery_lines(int, int[], int[])
WITH line AS (
    UPDATE order_line SET ol_delivery_d = now()
    FROM unnest($2::int[], $3::int[]) AS delivered(d, o)
    WHERE ol_w_id = $1 AND ol_d_id = d AND ol_o_id = o
    RETURNING ol_d_id, ol_amount)
SELECT ol_d_id, sum(ol_amount) FROM line GROUP BY ol_d_id;

-- name: delivery_customers(int, int[], int[], numeric[])
UPDATE customer SET c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1
FROM unnest($2::int[], $3::int[], $4::numeric[]) AS delivered(d, c, amount)
WHERE c_w_id = $1 AND c_d_id = d AND c_id = c;

-- ---- Stock-Level --------------------------------------------------------------------------------

-- name: stock_level_district(int, int)
SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2;

-- name: stock_level_count(int, int, int, int)
SELECT count(DISTINCT s_i_id)
FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id
WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 - 20 AND ol_o_id < $3 AND s_quantity < $4;
