-- What the application has beside TPC-C before it is migrated.
CREATE TABLE journal (id uuid PRIMARY KEY, sp text NOT NULL, at timestamptz NOT NULL DEFAULT now());
CREATE TABLE schema_version (step text PRIMARY KEY, installed_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE supplier (
    id     serial PRIMARY KEY,
    code   text NOT NULL,
    name   text NOT NULL,
    rating int NOT NULL DEFAULT 3,
    w_id   int NOT NULL
);
INSERT INTO supplier (code, name, w_id) SELECT 'S' || n, 'Supplier ' || n, n % 3 + 1 FROM generate_series(1, 300) n;
CREATE TABLE rate (id int PRIMARY KEY, percent numeric NOT NULL);
INSERT INTO rate SELECT n, n / 10.0 FROM generate_series(1, 20) n;
CREATE TABLE rate_new (id int PRIMARY KEY, permille int NOT NULL, note text);
INSERT INTO rate_new SELECT n, 10 * n, 'new' FROM generate_series(1, 20) n;
CREATE TABLE scratch (id int PRIMARY KEY, v text);
INSERT INTO scratch SELECT n, 'old' FROM generate_series(1, 50) n;
