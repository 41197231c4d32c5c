"""Drivers and tools that people use, as they use them; nothing in them knows psp."""

import asyncio
import os
import subprocess
import threading
from typing import Any

import asyncpg
import pg8000.dbapi
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import Jsonb
from sqlalchemy import ForeignKey, create_engine, insert, select, update
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship
from sqlalchemy.orm.exc import StaleDataError

from tests.cluster.sites import Sites, needs


def parts_of(sites: Sites, name: str) -> dict[str, Any]:
    """host, port, user, database of an SP, for drivers that take no conninfo string."""
    parts = conninfo_to_dict(sites.cluster.sp(name).dsn)
    return {
        "host": parts.get("host") or "127.0.0.1",
        "port": int(parts["port"] or 5432),
        "user": parts["user"],
        "database": parts["dbname"],
    }


def url_of(sites: Sites, name: str, driver: str) -> str:
    parts = parts_of(sites, name)
    return f"postgresql+{driver}://{parts['user']}@{parts['host']}:{parts['port']}/{parts['database']}"


# ---- psql -----------------------------------------------------------------------------------------


@needs("CREATE TABLE psql_t (id int PRIMARY KEY, v text)")
def test_psql(sites: Sites) -> None:
    script = r"""
        \set ON_ERROR_STOP on
        BEGIN;
        INSERT INTO psql_t VALUES (1, 'one') RETURNING id;
        \copy psql_t FROM PROGRAM 'printf "2\ttwo\n3\tthree\n"'
        COMMIT;
        SELECT format('UPDATE psql_t SET v = upper(v) WHERE id = %s', id) FROM psql_t \gexec
        DELETE FROM psql_t WHERE id = 3 \; INSERT INTO psql_t VALUES (4, 'four');
    """
    command = ["psql", "-X", "-q", "-A", "-t", "-d", sites.cluster.sp("north").dsn]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert sites.rows("south", "SELECT * FROM psql_t ORDER BY id") == [(1, "ONE"), (2, "TWO"), (4, "four")]


# ---- psycopg --------------------------------------------------------------------------------------


@needs("CREATE TABLE psycopg_t (id int PRIMARY KEY, v text, b bytea, j jsonb)")
@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_parameters_and_prepared_statements(sites: Sites, binary: bool) -> None:
    base = 1000 if binary else 0
    with sites.connect("north") as db:
        cursor = db.cursor(binary=binary)
        for n in range(20):  # psycopg prepares on the server from the fifth time on
            cursor.execute(
                "INSERT INTO psycopg_t VALUES (%s, %s, %s, %s) RETURNING id",
                (base + n, f"v{n}", bytes([n, 0]), Jsonb({"n": n})),
            )
            assert cursor.fetchone() == (base + n,)
        cursor.executemany("UPDATE psycopg_t SET v = %s WHERE id = %s", [("x", base + n) for n in range(10)])
    query = f"SELECT count(*) FROM psycopg_t WHERE v = 'x' AND id BETWEEN {base} AND {base + 999}"
    assert sites.rows("south", query) == [(10,)]


@needs("CREATE TABLE pipeline_t (id int PRIMARY KEY, v int)")
def test_psycopg_pipeline_mode(sites: Sites) -> None:
    with sites.connect("north") as db:
        with db.pipeline():
            db.execute("INSERT INTO pipeline_t SELECT n, 0 FROM generate_series(1, 10) n")
            for n in range(1, 11):
                db.execute("UPDATE pipeline_t SET v = %s WHERE id = %s", (n, n))
        db.commit()
        with db.pipeline(), db.transaction():
            db.execute("DELETE FROM pipeline_t WHERE id = 1")
            counted = db.execute("SELECT count(*) FROM pipeline_t")
            assert counted.fetchone() == (9,)
    assert sites.rows("south", "SELECT sum(v) FROM pipeline_t") == [(54,)]


@needs("CREATE TABLE pulled_t (id int PRIMARY KEY, v int)")
def test_psycopg_server_side_cursors(sites: Sites) -> None:
    with sites.connect("north") as db:
        db.execute("INSERT INTO pulled_t SELECT n, n FROM generate_series(1, 1000) n")
        with db.cursor("pulled") as cursor:
            cursor.execute("SELECT id FROM pulled_t ORDER BY id")
            for (row_id,) in cursor:
                if row_id % 100 == 0:
                    db.execute("UPDATE pulled_t SET v = 0 WHERE id = %s", (row_id,))
    assert sites.rows("south", "SELECT count(*) FROM pulled_t WHERE v = 0") == [(10,)]


@needs("CREATE TABLE async_t (id int PRIMARY KEY, v int)")
def test_psycopg_async_clients_at_once(sites: Sites) -> None:
    async def client(name: str, base: int) -> None:
        async with await psycopg.AsyncConnection.connect(sites.cluster.sp(name).dsn) as db:
            for n in range(20):
                await db.execute("INSERT INTO async_t VALUES (%s, %s)", (base + n, n))
                await db.commit()

    async def all_clients() -> None:
        await asyncio.gather(*(client(name, 1000 * i) for i, name in enumerate(["north", "south"] * 4)))

    asyncio.run(all_clients())
    assert sites.rows("north", "SELECT count(*) FROM async_t") == [(160,)]


@needs("CREATE TABLE listened_t (id int PRIMARY KEY)")
def test_listen_and_notify_stay_at_their_site(sites: Sites) -> None:
    listener = sites.connect("north", autocommit=True)
    listener.execute("LISTEN news")
    with sites.connect("north") as db:
        db.execute("INSERT INTO listened_t VALUES (1)")
        db.execute("NOTIFY news, 'written'")
    heard = [note.payload for note in listener.notifies(timeout=5, stop_after=1)]
    assert heard == ["written"]


# ---- other drivers --------------------------------------------------------------------------------


@needs("CREATE TABLE asyncpg_t (id int PRIMARY KEY, v text, tags text[])")
def test_asyncpg(sites: Sites) -> None:
    async def work() -> None:
        db = await asyncpg.connect(**parts_of(sites, "north"))
        try:
            await db.executemany(
                "INSERT INTO asyncpg_t VALUES ($1, $2, $3)", [(n, "v", ["a"]) for n in range(50)]
            )
            records = [(n, "copied", None) for n in range(50, 100)]
            await db.copy_records_to_table("asyncpg_t", records=records)
            async with db.transaction(isolation="repeatable_read"):
                async for record in db.cursor("SELECT id FROM asyncpg_t WHERE id < 5"):
                    await db.execute("UPDATE asyncpg_t SET v = 'seen' WHERE id = $1", record["id"])
            with pytest.raises(asyncpg.UniqueViolationError):
                await db.execute("INSERT INTO asyncpg_t VALUES (1)")
            assert await db.fetchval("DELETE FROM asyncpg_t WHERE id = 0 RETURNING v") == "seen"
        finally:
            await db.close()

    asyncio.run(work())
    expected = [("copied", 50), ("seen", 4), ("v", 45)]
    assert sites.rows("south", "SELECT v, count(*) FROM asyncpg_t GROUP BY v ORDER BY v") == expected


@needs("CREATE TABLE pg8000_t (id int PRIMARY KEY, v text)")
def test_pg8000(sites: Sites) -> None:
    db = pg8000.dbapi.connect(**parts_of(sites, "south"))
    try:
        cursor = db.cursor()
        cursor.executemany("INSERT INTO pg8000_t VALUES (%s, %s)", [(n, "v") for n in range(5)])
        db.commit()
        cursor.execute("UPDATE pg8000_t SET v = %s WHERE id < %s RETURNING id", ("w", 2))
        assert sorted(cursor.fetchall()) == [[0], [1]]
        db.rollback()
    finally:
        db.close()
    assert sites.rows("north", "SELECT count(*) FROM pg8000_t WHERE v = 'v'") == [(5,)]


# ---- SQLAlchemy -----------------------------------------------------------------------------------


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customer"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    version_id: Mapped[int] = mapped_column("version")
    orders: Mapped[list["Order"]] = relationship(back_populates="customer", cascade="all, delete-orphan")
    __mapper_args__ = {"version_id_col": version_id}  # noqa: RUF012  # declared by SQLAlchemy, not as ClassVar


class Order(Base):
    __tablename__ = "customer_order"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int] = mapped_column(ForeignKey("customer.id"))
    item: Mapped[str]
    customer: Mapped[Customer] = relationship(back_populates="orders")


ORM_TABLES = """
    CREATE TABLE customer (id serial PRIMARY KEY, name text NOT NULL, version int NOT NULL);
    CREATE TABLE customer_order (
        id serial PRIMARY KEY, customer_id int NOT NULL REFERENCES customer (id), item text NOT NULL);
"""


@needs(ORM_TABLES)
def test_sqlalchemy_orm_with_version_counter(sites: Sites) -> None:
    north = create_engine(url_of(sites, "north", "psycopg"))
    south = create_engine(url_of(sites, "south", "psycopg"))
    with Session(north) as session:
        ann = Customer(name="Ann", orders=[Order(item=f"item {n}") for n in range(30)])
        session.add(ann)
        session.commit()
        ann_id = ann.id
        statement = (
            insert(Customer).values([{"name": n, "version_id": 1} for n in "xyz"]).returning(Customer.id)
        )
        assert len(session.scalars(statement).all()) == 3
        session.commit()
    assert sites.rows("south", "SELECT count(*) FROM customer_order") == [(30,)]

    with Session(south) as late, Session(south) as early:
        stale, fresh = late.get_one(Customer, ann_id), early.get_one(Customer, ann_id)
        fresh.name = "Anna"
        del fresh.orders[:10]
        early.commit()
        stale.name = "Annie"
        with pytest.raises(StaleDataError):
            late.commit()
    sites.rows("north", "SELECT 1")
    with Session(north) as session:
        assert session.scalar(select(Customer.name).where(Customer.id == ann_id)) == "Anna"
        session.execute(update(Customer).where(Customer.name == "x").values(name="X"))
        session.delete(session.get_one(Customer, ann_id))
        session.commit()
    assert sites.rows("south", "SELECT count(*) FROM customer_order") == [(0,)]
    north.dispose()
    south.dispose()


def test_sqlalchemy_asyncio(sites: Sites) -> None:
    async def work() -> int:
        engine = create_async_engine(url_of(sites, "south", "asyncpg"))
        async with async_sessionmaker(engine)() as session:
            session.add(Customer(name="Bo", orders=[Order(item="one"), Order(item="two")]))
            await session.commit()
            found = await session.scalars(select(Order).join(Customer).where(Customer.name == "Bo"))
            count = len(found.all())
        await engine.dispose()
        return count

    assert asyncio.run(work()) == 2
    assert sites.rows("north", "SELECT count(*) FROM customer WHERE name = 'Bo'") == [(1,)]


# ---- many clients ---------------------------------------------------------------------------------


@needs("CREATE TABLE crowd_t (id bigserial PRIMARY KEY, client int)")
def test_connections_that_come_and_go(sites: Sites) -> None:
    """Each write on a connection of its own, some of which are dropped in the middle of a transaction."""

    def client(number: int) -> None:
        name = ("north", "south")[number % 2]
        for turn in range(15):
            db = psycopg.connect(sites.cluster.sp(name).dsn)
            db.execute("INSERT INTO crowd_t (client) VALUES (%s)", (number,))
            if turn % 3 == 2:
                os.close(os.dup(db.fileno()))
                db.pgconn.finish()  # gone without a word
            else:
                db.commit()
                db.close()

    threads = [threading.Thread(target=client, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), "a client hangs"
    assert sites.rows("north", "SELECT count(*), count(DISTINCT client) FROM crowd_t") == [(60, 6)]
