"""The migration: 24 steps, as Alembic, Django, Flyway and psql would send them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One step. Without `there` it is one transaction, which notes its name in schema_version.

    With it, the only statement commits by itself. `there` is a query that finds a row once that has happened.
    """

    name: str
    statements: tuple[str, ...]
    there: str = ""


def _column(table: str, column: str, more: str = "") -> str:
    return (
        f"SELECT FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attname = '{column}'"
        f" AND NOT attisdropped{more and ' AND '}{more}"
    )


def _relation(name: str) -> str:
    return f"SELECT FROM pg_class WHERE relname = '{name}' AND relnamespace = 'public'::regnamespace"


def _constraint(name: str, more: str = "") -> str:
    return f"SELECT FROM pg_constraint WHERE conname = '{name}'{more and ' AND '}{more}"


STEPS = (
    Step(
        "a table with a foreign key to one that is written",
        (
            "CREATE TABLE courier (id bigserial PRIMARY KEY, name text NOT NULL UNIQUE,"
            " w_id int NOT NULL REFERENCES warehouse)",
            "INSERT INTO courier (name, w_id) SELECT 'courier ' || w_id, w_id FROM warehouse",
        ),
    ),
    Step(
        "a column with a default, written",
        ("ALTER TABLE customer ADD COLUMN c_loyalty integer DEFAULT 0 NOT NULL",),
        _column("customer", "c_loyalty"),
    ),
    Step(
        "a column that is filled, read",
        (
            "ALTER TABLE item ADD COLUMN i_label text",
            "UPDATE item SET i_label = upper(i_name)",
            "ALTER TABLE item ALTER COLUMN i_label SET NOT NULL",
        ),
    ),
    Step(
        "an index, written", ("CREATE INDEX orders_entry ON orders (o_entry_d)",), _relation("orders_entry")
    ),
    Step(
        "a unique index, written",
        ("CREATE UNIQUE INDEX orders_number ON orders (o_id, o_d_id, o_w_id)",),
        _relation("orders_number"),
    ),
    Step(
        "int to bigint, written",
        ("ALTER TABLE stock ALTER COLUMN s_ytd TYPE bigint",),
        _column("stock", "s_ytd", "atttypid = 'bigint'::regtype"),
    ),
    Step(
        "int to bigint, another default and a unique constraint",
        (
            "ALTER TABLE supplier ALTER COLUMN rating TYPE bigint, ALTER COLUMN rating SET DEFAULT 5",
            "ALTER TABLE supplier ADD CONSTRAINT supplier_code UNIQUE (code)",
        ),
    ),
    Step(
        "a constraint, not valid yet, written",
        ("ALTER TABLE order_line ADD CONSTRAINT line_quantity CHECK (ol_quantity > 0) NOT VALID",),
        _constraint("line_quantity"),
    ),
    Step(
        "a constraint is validated, written",
        ("ALTER TABLE order_line VALIDATE CONSTRAINT line_quantity",),
        _constraint("line_quantity", "convalidated"),
    ),
    Step(
        "a foreign key, not valid yet, and validated",
        (
            "ALTER TABLE supplier ADD CONSTRAINT supplier_warehouse FOREIGN KEY (w_id) REFERENCES warehouse"
            " NOT VALID",
            "ALTER TABLE supplier VALIDATE CONSTRAINT supplier_warehouse",
        ),
    ),
    Step(
        "a column and a table get other names",
        (
            "ALTER TABLE supplier RENAME COLUMN name TO title",
            "ALTER TABLE supplier RENAME TO vendor",
            "UPDATE vendor SET title = title || '.' WHERE id % 2 = 0",
        ),
    ),
    Step(
        "and their old names again",
        ("ALTER TABLE vendor RENAME TO supplier; ALTER TABLE supplier RENAME COLUMN title TO name",),
    ),
    Step(
        "a column has another name for a moment, written",
        (
            "ALTER TABLE history RENAME COLUMN h_data TO h_text",
            "ALTER TABLE history RENAME COLUMN h_text TO h_data",
        ),
    ),
    Step(
        "two tables are swapped",
        (
            "ALTER TABLE rate RENAME TO rate_old",
            "ALTER TABLE rate_new RENAME TO rate",
            "ALTER TABLE rate_old RENAME TO rate_new",
            "INSERT INTO rate VALUES (21, 210, 'after the swap')",
        ),
    ),
    Step(
        "an enum and its column",
        (
            "CREATE TYPE service AS ENUM ('normal', 'express')",
            "ALTER TABLE courier ADD COLUMN service service NOT NULL DEFAULT 'normal'",
        ),
    ),
    Step(
        "a value of the enum",
        ("ALTER TYPE service ADD VALUE 'overnight' BEFORE 'express'",),
        "SELECT FROM pg_enum WHERE enumlabel = 'overnight'",
    ),
    Step(
        "the value is used",
        (
            "UPDATE courier SET service = 'overnight' WHERE w_id = 1",
            "ALTER TABLE courier ALTER COLUMN service SET DEFAULT 'overnight'",
            "CREATE SEQUENCE ticket",
            "ALTER TABLE courier ADD COLUMN ticket bigint NOT NULL DEFAULT nextval('ticket')",
        ),
    ),
    Step(
        "a function and a trigger, written",
        (
            "ALTER TABLE history ADD COLUMN h_note text",
            "CREATE FUNCTION note_history() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN NEW.h_note := 'paid ' || NEW.h_amount; RETURN NEW; END $$",
            "CREATE TRIGGER note_history BEFORE INSERT ON history"
            " FOR EACH ROW EXECUTE FUNCTION note_history()",
        ),
    ),
    Step(
        "views and grants",
        (
            "CREATE VIEW district_sales AS SELECT d_w_id, d_id, d_ytd FROM district",
            "CREATE MATERIALIZED VIEW item_prices AS SELECT i_id, i_price FROM item",
            "GRANT SELECT ON district_sales, item_prices TO reporting",
            "GRANT SELECT, UPDATE (name) ON supplier TO reporting",
        ),
    ),
    Step(
        "policies and comments",
        (
            "ALTER TABLE supplier ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY of_first ON supplier FOR SELECT TO reporting USING (w_id = 1)",
            "COMMENT ON TABLE customer IS 'it''s; TPC-C''s'",
            "COMMENT ON COLUMN supplier.code IS 'unique'",
        ),
    ),
    Step(
        "the same name dropped and made",
        (
            "DROP TABLE scratch",
            "CREATE TABLE scratch (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, price numeric)",
            "INSERT INTO scratch (price) SELECT n FROM generate_series(1, 10) n",
        ),
    ),
    Step(
        "a partitioned table",
        (
            "CREATE TABLE visit (id int, day date, note text, PRIMARY KEY (id, day))"
            " PARTITION BY RANGE (day)",
            "CREATE TABLE visit_1 PARTITION OF visit FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')",
            "CREATE TABLE visit_2 (LIKE visit INCLUDING ALL)",
            "INSERT INTO visit_2 VALUES (1, '2026-02-03', 'before it is attached')",
            "ALTER TABLE visit ATTACH PARTITION visit_2 FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')",
            "INSERT INTO visit SELECT n, date '2026-01-20' + n, 'later' FROM generate_series(2, 30) n",
        ),
    ),
    Step(
        "a column that is filled, written",
        (
            "ALTER TABLE district ADD COLUMN d_region text",
            "UPDATE district SET d_region = 'region ' || d_w_id",
            "ALTER TABLE district ALTER COLUMN d_region SET NOT NULL",
        ),
    ),
    Step(
        "a column is dropped, written",
        ("ALTER TABLE customer DROP COLUMN c_loyalty",),
        f"SELECT WHERE NOT EXISTS ({_column('customer', 'c_loyalty')})",
    ),
)

SECOND_STEPS = (
    Step(
        "second: a table",
        ("CREATE TABLE memo (id bigserial PRIMARY KEY, v text)", "INSERT INTO memo (v) VALUES ('a')"),
    ),
    Step("second: a column", ("ALTER TABLE memo ADD COLUMN at timestamptz NOT NULL DEFAULT now()",)),
    Step("second: a view", ("CREATE VIEW memos AS SELECT v, at FROM memo",), _relation("memos")),
    Step(
        "second: a column of an own type",
        ("CREATE DOMAIN weight AS int CHECK (VALUE > 0)", "ALTER TABLE memo ADD w weight"),
    ),
    Step(
        "second: a function",
        ("CREATE FUNCTION memo_count() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM memo'",),
    ),
    Step(
        "second: all is dropped",
        ("DROP FUNCTION memo_count()", "DROP VIEW memos", "DROP TABLE memo", "DROP DOMAIN weight"),
    ),
)
"""Another migration at the same time, at another SP. Its tables are its own."""
