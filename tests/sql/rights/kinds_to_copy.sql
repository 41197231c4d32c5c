-- Values of all kinds of types, as keys and beside them.
CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN few AS int CHECK (VALUE < 100);
CREATE DOMAIN yes AS boolean; CREATE DOMAIN short AS char(4); CREATE DOMAIN half AS numeric(6, 2); CREATE DOMAIN good AS mood;
CREATE TYPE two AS (a few, b boolean, c mood);
CREATE TABLE a (k few, m mood, n numeric, c char(3), d date, f float8, y yes, PRIMARY KEY (k, m, n, c, d, f),
                gone int, "Odd one" text, e good, h half, s short, l int[], ll mood[], t two, tt two[], r int4range, b bytea, j json,
                jb jsonb, i interval, z timestamptz, v tsvector, q tsquery, u uuid, inet inet, x char(1), bits bit(3), p point,
                path path, mon money, nm name, g int GENERATED ALWAYS AS (k * 2) STORED);
ALTER TABLE a DROP COLUMN gone;
INSERT INTO a VALUES
    (1, 'sad', 1.500, 'a', '2026-01-02', '-0', true, E'tab\t\\.\n\r\x01', 'glad', 2.5, 'ab', '{1,NULL,3}', '{sad,glad}',
     '(5,t,glad)', '{"(5,f,sad)",NULL}', '[1,5)', '\x00ff', '{"a" : 1 }', '{"b": 1.50}', '1 mon 2 days 03:04:05.000006', '2026-01-02 03:04:05.678901+02',
     'a:1 b:2', 'a & b', '00000000-0000-0000-0000-000000000007', '10.0.0.1', '', '101', '(0.1,1e300)', '[(0,0),(1,1.5)]', '-12.34', 'n');
INSERT INTO a (k, m, n, c, d, f, y, "Odd one") VALUES
    (2, 'glad', 'NaN', '', 'infinity', 'NaN', NULL, NULL), (3, 'sad', 0, 'abc', '0044-03-15 BC', 1e-300, false, '\N'),
    (4, 'sad', 1e40, '\.', '-infinity', '-Infinity', false, '');
CREATE TABLE parted (id int PRIMARY KEY, v int) PARTITION BY LIST (id);
CREATE TABLE parted_1 (v int, id int NOT NULL); ALTER TABLE parted ATTACH PARTITION parted_1 FOR VALUES IN (1);
CREATE TABLE parted_2 PARTITION OF parted DEFAULT; INSERT INTO parted SELECT n, n * 10 FROM generate_series(1, 5) n;
CREATE TABLE empty (id int PRIMARY KEY);
