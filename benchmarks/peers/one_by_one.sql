-- The statements of the five transactions (clauses 2.4 to 2.8), each of one row or one search, as PostgreSQL and MariaDB
-- both understand them. Rows that are read to be written are locked at once.

-- name: customer_by_name
SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first;

-- ---- New-Order ----------------------------------------------------------------------------------

-- name: new_order_customer
SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3;

-- name: new_order_warehouse
SELECT w_tax FROM warehouse WHERE w_id = $1;

-- name: new_order_district
SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = $1 AND d_id = $2 FOR UPDATE;

-- name: new_order_next
UPDATE district SET d_next_o_id = $3 WHERE d_w_id = $1 AND d_id = $2;

-- name: new_order_order
INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
VALUES ($1, $2, $3, $4, now(), $5, $6);

-- name: new_order_queue
INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3);

-- name: new_order_item
SELECT i_price, i_name, i_data FROM item WHERE i_id = $1;

-- name: new_order_stock
SELECT s_quantity, s_data, s_dist_$3 FROM stock WHERE s_w_id = $1 AND s_i_id = $2 FOR UPDATE;

-- name: new_order_take
UPDATE stock
SET s_quantity = $3, s_ytd = s_ytd + $4, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $5
WHERE s_w_id = $1 AND s_i_id = $2;

-- name: new_order_line
INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
                        ol_dist_info)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- ---- Payment: the rows that everybody wants last, so that they are locked for the shortest time -------------------

-- name: payment_customer
SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit,
       c_credit_lim, c_discount, c_balance, c_data
FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 FOR UPDATE;

-- name: payment_pay
UPDATE customer
SET c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4, c_payment_cnt = c_payment_cnt + 1
WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3;

-- name: payment_pay_bad_credit
UPDATE customer
SET c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4, c_payment_cnt = c_payment_cnt + 1, c_data = $5
WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3;

-- name: payment_district
UPDATE district SET d_ytd = d_ytd + $3 WHERE d_w_id = $1 AND d_id = $2;

-- name: payment_district_name
SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district WHERE d_w_id = $1 AND d_id = $2;

-- name: payment_warehouse
UPDATE warehouse SET w_ytd = w_ytd + $2 WHERE w_id = $1;

-- name: payment_warehouse_name
SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = $1;

-- name: payment_history
INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
VALUES ($1, $2, $3, $4, $5, now(), $6, $7);

-- ---- Order-Status -------------------------------------------------------------------------------

-- name: order_status_customer
SELECT c_first, c_middle, c_last, c_balance FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3;

-- name: order_status_order
SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3
ORDER BY o_id DESC LIMIT 1;

-- name: order_status_lines
SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3;

-- ---- Delivery, of all districts of a warehouse in one transaction -----------------------------------------------

-- name: delivery_oldest
SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id LIMIT 1 FOR UPDATE;

-- name: delivery_take
DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3;

-- name: delivery_customer
SELECT o_c_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3;

-- name: delivery_order
UPDATE orders SET o_carrier_id = $4 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3;

-- name: delivery_lines
UPDATE order_line SET ol_delivery_d = now() WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3;

-- name: delivery_amount
SELECT sum(ol_amount) FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3;

-- name: delivery_balance
UPDATE customer SET c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1
WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3;

-- ---- Stock-Level --------------------------------------------------------------------------------

-- name: stock_level_district
SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2;

-- name: stock_level_count
SELECT count(DISTINCT s_i_id)
FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id
WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 - 20 AND ol_o_id < $3 AND s_quantity < $4;
