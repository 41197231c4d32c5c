"""What a statement has made is told from what others have made meanwhile."""

from tests.sql.databases import Pair, one


def test_an_index_that_another_session_has_made(app: Pair) -> None:
    count = "SELECT count(*) FROM psp.new_indexes"
    with app.connect() as own, app.connect() as other:
        own.execute("SELECT pg_current_xact_id()")
        other.execute("CREATE UNLOGGED TABLE public.others (id int PRIMARY KEY)")
        other.execute("DELETE FROM psp.local_indexes")
        other.commit()
        assert one(own, count) == 0
        own.execute("SAVEPOINT a")
        own.execute("CREATE UNLOGGED TABLE public.own (id int PRIMARY KEY)")
        own.execute("DELETE FROM psp.local_indexes")
        assert one(own, count) == 1
        own.execute("RELEASE a")
        assert one(own, count) == 1
        own.rollback()
        other.execute("DROP TABLE public.others")
