"""Which names the schema changes of a cluster mention, for a join that starts from a member's schema."""

import pytest
from psp.schema.member_schema import words_of


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("CREATE VIEW Latest AS SELECT 1", "latest"),
        ('CREATE VIEW "order-status" AS SELECT 1', "order-status"),
        ('CREATE VIEW "Übersicht" AS SELECT 1', "Übersicht"),
        (f"CREATE VIEW {'v' * 70} AS SELECT 1", "v" * 63),
        ('COMMENT ON TABLE disk IS \'5" wide\';\nCREATE VIEW "order-status" AS SELECT 1', "order-status"),
        ('CREATE VIEW "say ""hi""" AS SELECT 1', 'say "hi"'),
    ],
)
def test_a_name_in_a_text(text: str, name: str) -> None:
    assert name in words_of([text])
