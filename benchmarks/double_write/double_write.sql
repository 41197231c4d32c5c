-- A New-Order of ten lines, as plain PostgreSQL writes it, and as the thesis's section 3.3 writes it: into unlogged tables
-- first, then, when it is certified, into the real ones. Nothing of psp: no views, triggers, daemons, certification.
CREATE TABLE registered (
    xid    xid8 PRIMARY KEY,
    tx_id  uuid NOT NULL DEFAULT gen_random_uuid(),
    status text NOT NULL
);
CREATE UNLOGGED TABLE stock_temp (xid xid8, LIKE stock, deleted boolean NOT NULL DEFAULT false,
    global_t bigint NOT NULL DEFAULT 0, PRIMARY KEY (xid, s_w_id, s_i_id));
CREATE UNLOGGED TABLE district_temp (xid xid8, LIKE district, deleted boolean NOT NULL DEFAULT false,
    global_t bigint NOT NULL DEFAULT 0, PRIMARY KEY (xid, d_w_id, d_id));
CREATE UNLOGGED TABLE orders_temp (xid xid8, LIKE orders, deleted boolean NOT NULL DEFAULT false,
    global_t bigint NOT NULL DEFAULT 0, PRIMARY KEY (xid, o_w_id, o_d_id, o_id));
CREATE UNLOGGED TABLE new_order_temp (xid xid8, LIKE new_order, deleted boolean NOT NULL DEFAULT false,
    global_t bigint NOT NULL DEFAULT 0, PRIMARY KEY (xid, no_w_id, no_d_id, no_o_id));
CREATE UNLOGGED TABLE order_line_temp (xid xid8, LIKE order_line, deleted boolean NOT NULL DEFAULT false,
    global_t bigint NOT NULL DEFAULT 0, PRIMARY KEY (xid, ol_w_id, ol_d_id, ol_o_id, ol_number));

-- plain: what the client says.
PREPARE plain_stock_read (int[]) AS SELECT s_i_id, s_quantity, s_data FROM stock WHERE s_w_id = 1 AND s_i_id = ANY ($1);
PREPARE plain_district (int) AS UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = $1 RETURNING d_next_o_id;
PREPARE plain_stock (int[]) AS UPDATE stock SET s_quantity = s_quantity - 1 FROM unnest($1) i WHERE s_w_id = 1 AND s_i_id = i;
PREPARE plain_orders (int, int) AS INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    VALUES ($2, $1, 1, 1, now(), 10, 1);
PREPARE plain_new_order (int, int) AS INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($2, $1, 1);
PREPARE plain_lines (int, int, int[]) AS
    INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info)
    SELECT $2, $1, 1, n, i, 1, 5, 1.5, 'abcdefghijklmnopqrstuvwx' FROM unnest($3) WITH ORDINALITY u(i, n);

-- written twice: what the client says. Each changed row is copied whole; inserts are as above, into the other table.
PREPARE temp_begin AS INSERT INTO registered (xid, status) VALUES (pg_current_xact_id(), 'running') RETURNING xid::text;
PREPARE temp_district (int) AS
    INSERT INTO district_temp SELECT pg_current_xact_id(), d.* FROM district d WHERE d_w_id = 1 AND d_id = $1;
PREPARE temp_district_next (int) AS
    UPDATE district_temp SET d_next_o_id = d_next_o_id + 1
     WHERE xid = pg_current_xact_id() AND d_w_id = 1 AND d_id = $1 RETURNING d_next_o_id;
PREPARE temp_stock (int[]) AS
    INSERT INTO stock_temp SELECT pg_current_xact_id(), s.* FROM stock s JOIN unnest($1) i ON s_w_id = 1 AND s_i_id = i;
PREPARE temp_orders (int, int) AS INSERT INTO orders_temp (xid, o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    VALUES (pg_current_xact_id(), $2, $1, 1, 1, now(), 10, 1);
PREPARE temp_new_order (int, int) AS
    INSERT INTO new_order_temp (xid, no_o_id, no_d_id, no_w_id) VALUES (pg_current_xact_id(), $2, $1, 1);
PREPARE temp_lines (int, int, int[]) AS
    INSERT INTO order_line_temp (xid, ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info)
    SELECT pg_current_xact_id(), $2, $1, 1, n, i, 1, 5, 1.5, 'abcdefghijklmnopqrstuvwx' FROM unnest($3) WITH ORDINALITY u(i, n);

-- written twice: what a local worker says, first for the write-set, then when the primary has decided.
PREPARE take_status (xid8) AS UPDATE registered SET status = 'waiting' WHERE xid = $1;
PREPARE take_rows (xid8) AS
    SELECT record_send(ROW(s_w_id, s_i_id)), record_send(r) FROM stock_temp r WHERE xid = $1
    UNION ALL SELECT record_send(ROW(d_w_id, d_id)), record_send(r) FROM district_temp r WHERE xid = $1
    UNION ALL SELECT record_send(ROW(o_w_id, o_d_id, o_id)), record_send(r) FROM orders_temp r WHERE xid = $1
    UNION ALL SELECT record_send(ROW(no_w_id, no_d_id, no_o_id)), record_send(r) FROM new_order_temp r WHERE xid = $1
    UNION ALL SELECT record_send(ROW(ol_w_id, ol_d_id, ol_o_id, ol_number)), record_send(r) FROM order_line_temp r WHERE xid = $1;
PREPARE apply_status (xid8) AS UPDATE registered SET status = 'committed' WHERE xid = $1;
-- Of what was changed only the changed column: less than what the thesis writes, which does not know which. (That the stock
-- is counted down here and not before costs the same.)
PREPARE apply_district (xid8) AS UPDATE district d SET d_next_o_id = r.d_next_o_id FROM district_temp r
    WHERE r.xid = $1 AND d.d_w_id = r.d_w_id AND d.d_id = r.d_id;
PREPARE apply_stock (xid8) AS UPDATE stock s SET s_quantity = r.s_quantity - 1 FROM stock_temp r
    WHERE r.xid = $1 AND s.s_w_id = r.s_w_id AND s.s_i_id = r.s_i_id;
PREPARE apply_orders (xid8) AS INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
    SELECT o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local FROM orders_temp WHERE xid = $1;
PREPARE apply_new_order (xid8) AS INSERT INTO new_order (no_o_id, no_d_id, no_w_id)
    SELECT no_o_id, no_d_id, no_w_id FROM new_order_temp WHERE xid = $1;
PREPARE apply_lines (xid8) AS
    INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info)
    SELECT ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info
      FROM order_line_temp WHERE xid = $1;

-- written twice: the garbage collector, for so many transactions at once that its statements cost nothing by themselves.
PREPARE collect_stock AS DELETE FROM stock_temp;
PREPARE collect_district AS DELETE FROM district_temp;
PREPARE collect_orders AS DELETE FROM orders_temp;
PREPARE collect_new_order AS DELETE FROM new_order_temp;
PREPARE collect_lines AS DELETE FROM order_line_temp;
