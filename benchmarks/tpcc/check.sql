-- The consistency conditions of clause 3.3.2, one row each: number, what must hold, how many violations there are.
-- Condition 11 is left out: it speaks of the freshly loaded database only, and condition 5 covers it afterwards.
WITH
district_history AS (
    SELECT h_w_id, h_d_id, sum(h_amount) AS amount FROM history GROUP BY h_w_id, h_d_id),
newest_order AS (
    SELECT o_w_id, o_d_id, max(o_id) AS newest, sum(o_ol_cnt) AS lines FROM orders GROUP BY o_w_id, o_d_id),
queue AS (
    SELECT no_w_id, no_d_id, min(no_o_id) AS oldest, max(no_o_id) AS newest, count(*) AS length
    FROM new_order GROUP BY no_w_id, no_d_id),
order_lines AS (
    SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS lines, count(ol_delivery_d) AS delivered,
           sum(ol_amount) FILTER (WHERE ol_delivery_d IS NOT NULL) AS amount
    FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id),
district_lines AS (
    SELECT ol_w_id, ol_d_id, sum(lines) AS lines FROM order_lines GROUP BY ol_w_id, ol_d_id),
customer_lines AS (
    SELECT o_w_id, o_d_id, o_c_id, coalesce(sum(amount), 0) AS amount
    FROM orders JOIN order_lines ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
    GROUP BY o_w_id, o_d_id, o_c_id),
customer_history AS (
    SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS amount FROM history GROUP BY h_c_w_id, h_c_d_id, h_c_id)

SELECT 1 AS condition, 'W_YTD is the sum of its D_YTD' AS description, count(*) AS violations
FROM warehouse
WHERE w_ytd IS DISTINCT FROM (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id)

UNION ALL
SELECT 2, 'D_NEXT_O_ID - 1 is the newest order, and the newest undelivered one', count(*)
FROM district
LEFT JOIN newest_order ON o_w_id = d_w_id AND o_d_id = d_id
LEFT JOIN queue ON no_w_id = d_w_id AND no_d_id = d_id
WHERE d_next_o_id - 1 IS DISTINCT FROM newest_order.newest
   OR (queue.newest IS NOT NULL AND queue.newest <> d_next_o_id - 1)

UNION ALL
SELECT 3, 'the undelivered orders of a district have no gaps', count(*)
FROM queue WHERE newest - oldest + 1 <> length

UNION ALL
SELECT 4, 'the sum of O_OL_CNT is the number of order lines, for each district', count(*)
FROM newest_order FULL JOIN district_lines ON ol_w_id = o_w_id AND ol_d_id = o_d_id
WHERE newest_order.lines IS DISTINCT FROM district_lines.lines

UNION ALL
SELECT 5, 'an order has no carrier if and only if it is undelivered', count(*)
FROM orders FULL JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
WHERE o_id IS NULL OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)

UNION ALL
SELECT 6, 'O_OL_CNT is the number of the order''s lines', count(*)
FROM orders FULL JOIN order_lines ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
WHERE o_ol_cnt IS DISTINCT FROM lines

UNION ALL
SELECT 7, 'order lines have a delivery date if and only if their order has a carrier', count(*)
FROM orders JOIN order_lines ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
WHERE delivered <> CASE WHEN o_carrier_id IS NULL THEN 0 ELSE lines END

UNION ALL
SELECT 8, 'W_YTD is the sum of the warehouse''s H_AMOUNT', count(*)
FROM warehouse
WHERE w_ytd IS DISTINCT FROM (SELECT sum(amount) FROM district_history WHERE h_w_id = w_id)

UNION ALL
SELECT 9, 'D_YTD is the sum of the district''s H_AMOUNT', count(*)
FROM district LEFT JOIN district_history ON h_w_id = d_w_id AND h_d_id = d_id
WHERE d_ytd IS DISTINCT FROM amount

UNION ALL
SELECT 10, 'C_BALANCE is what was delivered less what was paid', count(*)
FROM customer
LEFT JOIN customer_lines ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
LEFT JOIN customer_history ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
WHERE c_balance <> coalesce(customer_lines.amount, 0) - coalesce(customer_history.amount, 0)

UNION ALL
SELECT 12, 'C_BALANCE + C_YTD_PAYMENT is what was delivered', count(*)
FROM customer LEFT JOIN customer_lines ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
WHERE c_balance + c_ytd_payment <> coalesce(amount, 0)

ORDER BY condition
