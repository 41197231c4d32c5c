"""Which roles a schema change names."""

from __future__ import annotations

import pytest
from psp.schema.named_roles import roles_named


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ('GRANT SELECT ON item TO Reader, "Odd ""One", PUBLIC WITH GRANT OPTION', {"reader", 'Odd "One'}),
        ("/* by hand */ GRANT SELECT ON a TO b -- for now", {"b"}),
        ("REVOKE ALL ON t FROM x CASCADE", {"x"}),
        ("GRANT USAGE ON SCHEMA s TO GROUP g GRANTED BY CURRENT_USER", {"g"}),
        ("GRANT SELECT ON t TO CURRENT_USER", set()),
        ("ALTER TABLE t OWNER TO boss", {"boss"}),
        ("ALTER TABLE t RENAME owner TO boss", set()),
        ("ALTER TABLE t RENAME COLUMN owner TO boss", set()),
        ("CREATE SCHEMA AUTHORIZATION joe", {"joe"}),
        ("CREATE SCHEMA IF NOT EXISTS s AUTHORIZATION joe CREATE TABLE t (id int)", {"joe"}),
        ("CREATE POLICY p ON t FOR SELECT TO a, b USING (x = 'to c')", {"a", "b"}),
        ("ALTER POLICY p ON t RENAME TO q", set()),
        ("ALTER DEFAULT PRIVILEGES FOR ROLE r, s IN SCHEMA x GRANT SELECT ON TABLES TO v", {"r", "s", "v"}),
        ("CREATE USER MAPPING FOR u SERVER s", {"u"}),
        ("DROP OWNED BY x, y", {"x", "y"}),
        ("CREATE FUNCTION f() RETURNS void LANGUAGE sql AS $$ ; GRANT a ON b TO c; $$", set()),
        ("CREATE FUNCTION f() AS $x$ ; GRANT a ON b TO c; $x$; GRANT EXECUTE ON FUNCTION f() TO d", {"d"}),
        ("COMMENT ON TABLE t IS 'grant a on b to c'", set()),
        ("CREATE TABLE a (id int); GRANT SELECT ON a TO b; GRANT INSERT ON a TO c", {"b", "c"}),
    ],
)  # fmt: skip
def test_roles_of_statements(text: str, roles: set[str]) -> None:
    assert roles_named(text) == roles
