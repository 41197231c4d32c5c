"""The tables of schema.sql, as the generator sees them: what a column may hold, and how it may change."""

from dataclasses import dataclass, replace

FEW = tuple(str(n) for n in range(1, 9))
SMALL = ("0", "1", "2", "3", "4", "5", "6", "7", "NULL")
TEXTS = ("'x'", "'y'", "'X'", "chr(233)", "'a longer text'", "''", "NULL", "repeat('long', 40)")

# {r} stands for the row: nothing, or its name and a dot.
COUNTING = ("{r}a + 1", "coalesce({r}a, 0) - 1", "NULL", "3", "4", "{r}a")
APPENDING = ("left({r}b || '+', 60)", "'z'", "NULL", "{r}b", "upper({r}b)")


@dataclass(frozen=True)
class Column:
    """`values` are what an INSERT may say, `changes` what an UPDATE may.

    `of_many`: what an UPDATE of several rows may say where the order of the rows would matter otherwise.
    """

    name: str
    values: tuple[str, ...]
    changes: tuple[str, ...]
    of_many: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """`moves` change the key, and `swaps` do so for several rows at once without a collision on the way.

    `texts`: columns that hold statements, which the table's triggers execute. `merge`: it takes MERGE, which
    rules and INSTEAD OF triggers do not.
    """

    name: str
    keys: tuple[Column, ...]
    columns: tuple[Column, ...]
    moves: tuple[str, ...]
    swaps: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    conflict: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    merge: bool = True
    weight: int = 3


A, B = Column("a", SMALL, COUNTING), Column("b", TEXTS, APPENDING)

# Most tables: id, a and b.
_NUMBERED = Table(
    "",
    (Column("id", FEW, ()),),
    (A, B),
    moves=("id = {r}id + 10", "id = 9 - {r}id", "id = 3", "id = {r}id % 8 + 1", "id = {r}id - 10"),
    swaps=("id = -{r}id", "id = {r}id + 100"),
    conflict=("(id)",),
)

# Of references: some parents are missing.
_PARENT = (*FEW[:4], "NULL")

_TYPED = (
    Column("n", ("1.0", "1.00", "NULL", "'NaN'", "'Infinity'", "1e-20"), ("{r}n + 0.10", "'-Infinity'")),
    Column("f", ("0", "'-0'::float8", "'NaN'", "'Infinity'", "1e300", "NULL"), ("-{r}f", "{r}f / 3")),
    Column("i", ("'{}'", "'{1,NULL,3}'", "'[5:6]={1,2}'", "NULL"), ("{r}i || 4", "'{{1,2},{3,4}}'")),
    Column("j", ("""'{"a" : 1}'""", "'null'", "NULL"), ("""'{"a":1}'""", "json_build_array({r}id)")),
    Column("jb", ("""'{"a": 1, "b": [1.0, 1]}'""", "'null'", "NULL"), ("{r}jb || '{\"c\": 1e3}'",)),
    Column("m", ("'sad'", "'ok'", "'happy'", "NULL"), ("'ok'", "'happy'")),
    Column("at", ("'2024-02-29 12:00:00.001Z'", "'infinity'", "NULL"), ("{r}at + interval '1 mon'", "NULL")),
    Column("p", ("ROW(1, 'x')::pair", "ROW(NULL, NULL)::pair", "NULL"), ("ROW(({r}p).x + 1, 'a,b')::pair",)),
    Column("pp", ("ARRAY[(1, 'x')::pair, NULL]", "'{}'", "NULL"), ("{r}pp || (2, 'y\"')::pair",)),
    Column("ff", ("'{0.1,NaN}'", "NULL"), ("{r}ff || 1e100::float8 / 3", "{r}ff")),
    Column("tt", ("'{2024-03-31 12:00:00.5Z}'", "NULL"), ("{r}tt || '1999-12-31 00:00:00Z'::timestamptz",)),
    Column("hh", (r"ARRAY['\x5c00'::bytea]", "NULL"), (r"{r}hh || '\xff'::bytea",)),
    Column("d", ("7", "NULL"), ("{r}d * 3",)),
    Column("r", ("'[1,5)'", "'empty'", "'(,)'", "NULL"), ("{r}r * '[2,9)'", "'[3,]'")),
    Column("h", (r"'\x00ff'", "''", "NULL"), (r"{r}h || '\x01'",)),
    Column("u", ("'00000000-0000-0000-0000-000000000001'", "NULL"), ("md5({r}id::text)::uuid",)),
    Column("v", ("'1 mon 30 days 1 sec'", "'-1 day'", "NULL"), ("{r}v * 2",)),
    Column("long", ("repeat(md5('1'), 400)", "'short'", "NULL"), ("{r}long || 'x'", "repeat(md5('2'), 200)")),
)  # fmt: skip

_KEYED = (
    Column("n", ("1", "1.0", "1.00", "2", "'NaN'"), ()),
    Column("t", ("''", "'k'", "' k'", "repeat('key', 300)"), ()),
    Column("f", ("0", "'-0'::float8", "'NaN'", "'Infinity'"), ()),
    Column("c", ("'c'", "'c '", "''"), ()),
    Column("m", ("'sad'", "'happy'"), ()),
    Column("d", ("1", "2"), ()),
)

TABLES = (
    replace(_NUMBERED, name="plain", weight=5),
    replace(
        _NUMBERED,
        name="uniq",
        columns=(
            Column("a", SMALL, COUNTING, of_many=("NULL", "{r}a")),
            Column("b", TEXTS, APPENDING, of_many=("NULL", "{r}b")),
            Column("c", ("0", "1", "NULL"), ("1 - {r}c", "0", "1"), of_many=("0",)),
        ),
        conflict=("(id)", "(a)", "(lower(b)) WHERE c > 0"),
        weight=5,
    ),
    replace(
        _NUMBERED,
        name="late",
        conflict=(),
        swaps=("id = 9 - {r}id", "a = 7 - {r}a", "id = {r}id % 8 + 1"),
        weight=4,
    ),
    Table(
        "keys",
        _KEYED,
        (A, B),
        moves=("n = {r}n + 1", "n = 1.000", "f = -{r}f", "t = {r}t || 'k'", "m = 'ok'", "c = 'd'"),
        conflict=("(n, t, f, c, m, d)",),
    ),
    replace(_NUMBERED, name="types", columns=(A, B, *_TYPED), weight=5),
    replace(
        _NUMBERED,
        name="listed",
        partitions=("listed_a", "listed_b", "listed_rest", "listed_low", "listed_high"),
        keys=(Column("kind", ("'a'", "'b'", "'c'"), ()), Column("id", FEW[:6], ())),
        moves=("kind = 'a'", "kind = 'b'", "kind = 'z'", "id = {r}id + 3", "id = 2", "kind = 'c', id = 4"),
        swaps=("kind = 'q' || {r}kind", "id = {r}id + 100"),
        conflict=("(kind, id)",),
        weight=5,
    ),
    replace(
        _NUMBERED,
        name="ranged",
        partitions=("ranged_low", "ranged_mid", "ranged_rest"),
        texts=("todo",),
        weight=5,
    ),
    replace(_NUMBERED, name="parent", weight=4),
    replace(_NUMBERED, name="child", columns=(Column("a", _PARENT, _PARENT), B)),
    replace(_NUMBERED, name="cousin", columns=(Column("a", (*FEW[:4], "DEFAULT"), FEW[:4]), B)),
    replace(_NUMBERED, name="heir", columns=(Column("a", FEW[:4], FEW[:4]), B)),
    replace(_NUMBERED, name="tree", columns=(Column("a", _PARENT, _PARENT), B)),
    replace(_NUMBERED, name="twin", weight=2),
    replace(_NUMBERED, name="trig", texts=("early", "todo", "later"), weight=6),
    replace(
        _NUMBERED,
        name="chain",
        columns=(
            Column("a", ("0", "1", "2", "3"), ("2", "{r}a + 1")),
            Column("b", ("'x'", "'x'", "'ends badly'"), ("'y'", "'y'", "'bad'")),
        ),
        weight=2,
    ),
    replace(_NUMBERED, name="plain_view", merge=False, weight=1),
    replace(_NUMBERED, name="both_view", merge=False, conflict=(), weight=1),
    replace(_NUMBERED, name="ruled", merge=False, conflict=(), weight=1),
)

BY_NAME = {table.name: table for table in TABLES}
# What holds rows: in the order in which they can be deleted.
BASE = (
    "child", "cousin", "heir", "twin", "tree", "parent", "trig", "ranged", "chain", "ruled",
    "plain", "uniq", "late", "keys", "types", "listed", "audit",
)  # fmt: skip
