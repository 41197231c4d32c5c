-- Initial population (clause 4.3.3), made inside the server. Each statement has a name; :parameters are integers that
-- the loader puts in. Scale 3000 customers and 100000 items is the specification's.

-- name: helpers
-- In pg_temp, so nothing stays behind. alnum() is 86 random letters and digits.
CREATE FUNCTION pg_temp.alnum() RETURNS text LANGUAGE sql VOLATILE AS
    $$ SELECT translate(encode(sha512(random()::text::bytea), 'base64'), E'+/=\n', 'aZ') $$;
CREATE FUNCTION pg_temp.between(low integer, high integer) RETURNS integer LANGUAGE sql VOLATILE AS
    $$ SELECT low + floor(random() * (high - low + 1))::integer $$;
CREATE FUNCTION pg_temp.zip() RETURNS text LANGUAGE sql VOLATILE AS
    $$ SELECT lpad(floor(random() * 10000)::text, 4, '0') || '11111' $$;
CREATE FUNCTION pg_temp.state() RETURNS text LANGUAGE sql VOLATILE AS
    $$ SELECT chr(65 + floor(random() * 26)::integer) || chr(65 + floor(random() * 26)::integer) $$;
CREATE FUNCTION pg_temp.last_name(number integer) RETURNS text LANGUAGE sql IMMUTABLE AS
    $$ SELECT syllable[number / 100 % 10 + 1] || syllable[number / 10 % 10 + 1] || syllable[number % 10 + 1]
       FROM (VALUES ('{BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING}'::text[])) AS t(syllable) $$;
-- Clause 4.3.3.1: "ORIGINAL" somewhere in a tenth of I_DATA and S_DATA.
CREATE FUNCTION pg_temp.original(data text) RETURNS text LANGUAGE sql VOLATILE AS
    $$ SELECT CASE WHEN random() < 0.1
                   THEN overlay(data PLACING 'ORIGINAL' FROM 1 + floor(random() * (length(data) - 7))::integer FOR 8)
                   ELSE data END $$;

-- name: item
INSERT INTO item
SELECT i, pg_temp.between(1, 10000), left(pg_temp.alnum(), pg_temp.between(14, 24)),
       pg_temp.between(100, 10000) / 100.0, pg_temp.original(left(pg_temp.alnum(), pg_temp.between(26, 50)))
FROM generate_series(1, :items) AS i;

-- name: warehouse
INSERT INTO warehouse
SELECT :w, left(pg_temp.alnum(), pg_temp.between(6, 10)), left(pg_temp.alnum(), pg_temp.between(10, 20)),
       left(pg_temp.alnum(), pg_temp.between(10, 20)), left(pg_temp.alnum(), pg_temp.between(10, 20)),
       pg_temp.state(), pg_temp.zip(), pg_temp.between(0, 2000) / 10000.0, 10.0 * 10 * :customers;
INSERT INTO district
SELECT d, :w, left(pg_temp.alnum(), pg_temp.between(6, 10)), left(pg_temp.alnum(), pg_temp.between(10, 20)),
       left(pg_temp.alnum(), pg_temp.between(10, 20)), left(pg_temp.alnum(), pg_temp.between(10, 20)),
       pg_temp.state(), pg_temp.zip(), pg_temp.between(0, 2000) / 10000.0, 10.0 * :customers, :customers + 1
FROM generate_series(1, 10) AS d;

-- name: stock
INSERT INTO stock
SELECT i, :w, pg_temp.between(10, 100),
       substr(a, 1, 24), substr(a, 25, 24), substr(a, 49, 24), substr(b, 1, 24), substr(b, 25, 24),
       substr(b, 49, 24), substr(c, 1, 24), substr(c, 25, 24), substr(c, 49, 24), substr(d, 1, 24),
       0, 0, 0, pg_temp.original(left(substr(d, 25), pg_temp.between(26, 50)))
FROM (SELECT i, pg_temp.alnum() AS a, pg_temp.alnum() AS b, pg_temp.alnum() AS c, pg_temp.alnum() AS d
      FROM generate_series(1, :items) AS i OFFSET 0) AS strings;

-- name: customer
INSERT INTO customer
SELECT c, d, :w, left(pg_temp.alnum(), pg_temp.between(8, 16)), 'OE',
       pg_temp.last_name(CASE WHEN c <= 1000 THEN c - 1 ELSE name_number END),
       left(pg_temp.alnum(), pg_temp.between(10, 20)), left(pg_temp.alnum(), pg_temp.between(10, 20)),
       left(pg_temp.alnum(), pg_temp.between(10, 20)), pg_temp.state(), pg_temp.zip(),
       lpad(floor(random() * 1e16)::bigint::text, 16, '0'), now(),
       CASE WHEN random() < 0.1 THEN 'BC' ELSE 'GC' END, 50000, pg_temp.between(0, 5000) / 10000.0,
       -10, 10, 1, 0,
       left(pg_temp.alnum() || pg_temp.alnum() || pg_temp.alnum() || pg_temp.alnum() || pg_temp.alnum()
            || pg_temp.alnum(), pg_temp.between(300, 500))
FROM (SELECT d, c, ((pg_temp.between(0, 255) | pg_temp.between(0, 999)) + :c_last) % 1000 AS name_number
      FROM generate_series(1, 10) AS d, generate_series(1, :customers) AS c OFFSET 0) AS numbers;
INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
SELECT c, d, :w, d, :w, now(), 10, left(pg_temp.alnum(), pg_temp.between(12, 24))
FROM generate_series(1, 10) AS d, generate_series(1, :customers) AS c;

-- name: orders
-- O_C_ID is a random permutation of the customers; the last 30 % are not delivered yet.
INSERT INTO orders
SELECT o, d, :w, row_number() OVER (PARTITION BY d ORDER BY random()), now(),
       CASE WHEN o <= :delivered THEN pg_temp.between(1, 10) END, pg_temp.between(5, 15), 1
FROM generate_series(1, 10) AS d, generate_series(1, :customers) AS o;
INSERT INTO order_line
SELECT o_id, o_d_id, o_w_id, n, pg_temp.between(1, :items), o_w_id,
       CASE WHEN o_id <= :delivered THEN o_entry_d END, 5,
       CASE WHEN o_id <= :delivered THEN 0 ELSE pg_temp.between(1, 999999) / 100.0 END, left(pg_temp.alnum(), 24)
FROM orders, generate_series(1, o_ol_cnt) AS n
WHERE o_w_id = :w;
INSERT INTO new_order
SELECT o_id, o_d_id, o_w_id FROM orders WHERE o_w_id = :w AND o_id > :delivered;
