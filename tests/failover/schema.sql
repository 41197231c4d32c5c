-- What the clients of load.py write. Each transaction adds a row to journal: what its client was told can be compared with it.
CREATE TABLE journal (id uuid PRIMARY KEY, kind text NOT NULL, what text NOT NULL);
CREATE TABLE account (id int PRIMARY KEY, amount bigint NOT NULL);
CREATE TABLE counter (id text PRIMARY KEY, n bigint NOT NULL);
CREATE TABLE claim (id uuid PRIMARY KEY, name text NOT NULL UNIQUE);
INSERT INTO account SELECT id, 1000 FROM generate_series(1, 60) AS id;
