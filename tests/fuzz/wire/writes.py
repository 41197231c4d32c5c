"""What a semi-primary that was taken over could send: valid writes, and the ways to spoil them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from tests.fuzz.wire.messages import (
    ENDED,
    GUARD,
    READ,
    REFERRERS_READ,
    SCHEMA_CHANGE,
    SHARED,
    TABLE_READ,
    WRITE,
    Change,
    Row,
    Use,
    Write,
    columns_of,
    record,
)

ODD_NUMBERS = (0, 1, 2, 99, 1000, 2**31 - 1, 2**31, 2**32 - 1)


@dataclass(frozen=True)
class Known:
    """The catalog, and rows as they stand in the primary's database."""

    version: int
    tables: dict[int, str]
    guards: dict[int, tuple[int, ...]]
    rows: tuple[Row, ...]
    guard_rows: tuple[Row, ...]
    forms: dict[int, bytes]

    @property
    def numbers(self) -> tuple[int, ...]:
        return (*self.tables, *(number for guards in self.guards.values() for number in guards))


@dataclass(frozen=True)
class Spoiler:
    """One way to spoil a write. Not `mended`: psp takes it today, so the short run leaves it out."""

    name: str
    spoil: Callable[[Random, Known, Write], Write]
    mended: bool = True


def _row_spoiler(name: str, spoil: Callable[[Random, Known, Row], Row], mended: bool = True) -> Spoiler:
    def spoil_one(random: Random, known: Known, write: Write) -> Write:
        place = random.randrange(len(write.rows))
        rows = list(write.rows)
        rows[place] = spoil(random, known, rows[place])
        return replace(write, rows=tuple(rows))

    return Spoiler(name, spoil_one, mended)


def flipped(random: Random, content: bytes) -> bytes:
    """A few bytes are others, or missing, or too many."""
    made = bytearray(content)
    for _ in range(random.randint(1, 3)):
        kind, at = random.randrange(4), random.randrange(len(made) + 1)
        if kind == 0 and made:
            made[at % len(made)] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        elif kind == 1:
            del made[at:]
        elif kind == 2:
            made[at:at] = random.randbytes(random.randint(1, 9))
        else:
            made += b"\0"
    return bytes(made)


def _other_image(random: Random, known: Known, row: Row) -> Row:
    return replace(row, image=random.choice(known.rows).image)


def _of_columns(random: Random, content: bytes) -> bytes:
    """A record with other columns."""
    columns = columns_of(content)
    if not columns:
        return record((23, b"\0\0\0\1"))
    at = random.randrange(len(columns))
    oid, value = columns[at]
    kind = random.randrange(6)
    if kind == 0:
        del columns[at]
    elif kind == 1:
        columns.insert(at, (25, b"more"))
    elif kind == 2:
        columns[at] = (random.choice((23, 25, 1700, 0, 2**32 - 1)), value)
    elif kind == 3:
        columns[at] = (oid, (value or b"") + b"\0")
    elif kind == 4:
        columns[at] = (oid, b"")
    else:
        columns.reverse()
    return record(*columns)


def _values(random: Random, content: bytes) -> bytes:
    """The same columns with values that the table refuses, or its types."""
    columns = columns_of(content)
    at = random.randrange(len(columns))
    oid, value = columns[at]
    if oid == 23:
        columns[at] = (oid, random.choice((b"\xff\xff\xff\xff", b"\0\0\1\0", None)))
    elif oid in (25, 1043):
        columns[at] = (
            oid,
            random.choice(
                (b"\xff\xfe", b"a\0b", random.randbytes(20).hex().encode() * 400, b"no label", None)
            ),
        )
    else:
        columns[at] = (oid, random.choice((None, bytes(len(value or b"")), b"\xff" * len(value or b""))))
    return record(*columns)


def _image(change: Callable[[Random, bytes], bytes]) -> Callable[[Random, Known, Row], Row]:
    return lambda random, _known, row: (
        row if row.image is None else replace(row, image=change(random, row.image))
    )


def _key(change: Callable[[Random, bytes], bytes]) -> Callable[[Random, Known, Row], Row]:
    return lambda random, _known, row: replace(row, key=change(random, row.key))


def _null_key(_random: Random, content: bytes) -> bytes:
    return record(*((oid, None) for oid, _ in columns_of(content)))


def _same_unique_value(random: Random, _known: Known, write: Write) -> Write:
    """Without its guard: a row that has another one's unique value."""
    rows = [row for row in write.rows if row.image is not None]
    if not rows:
        return write
    row = random.choice(rows)
    columns = columns_of(row.image or b"")
    new = (columns[0][0], (77).to_bytes(len(columns[0][1] or b"1234"), "big"))
    return replace(write, rows=(Row(row.table_id, record(new), record(new, *columns[1:])),))


def _uses(random: Random, known: Known, write: Write) -> Write:
    kind = random.choice((READ, SHARED, ENDED, REFERRERS_READ, TABLE_READ, 5, 99))
    numbers = (*known.numbers, *ODD_NUMBERS)
    key = random.choice((b"", b"\0\0\0\0", random.choice(known.rows).key, random.randbytes(9)))
    use = Use(kind, random.choice(numbers), key)
    return replace(write, uses=(use,) * random.choice((1, 1, 2)))


def _changes(random: Random, known: Known, write: Write) -> Write:
    """Tables that a schema change without a statement says that it changes."""
    table, other = random.choice(tuple(known.tables)), random.choice((*known.numbers, *ODD_NUMBERS))
    form = known.forms[table]
    change = random.choice(
        (
            Change(table, known.guards[table], form=form),
            Change(table, known.guards[table], form=random.choice((b"", flipped(random, form)))),
            Change(table, (other,), form=form),
            Change(other, known.guards[table], form=form),
            Change(table, dropped=True),
            Change(table, known.guards[table], emptied=True, form=form),
            Change(500 + random.randrange(9), (600,), form=form),
        )
    )
    kind = random.choice((SCHEMA_CHANGE, SCHEMA_CHANGE, 0, 2))
    rows = random.choice((write.rows, (), (Row(0, write.rows[0].key, write.rows[0].image),)))
    return replace(
        write, kind=kind, version=write.version + random.choice((0, 1, 1, 2)), changes=(change,), rows=rows
    )


def _snapshot(random: Random, _known: Known, write: Write) -> Write:
    watermark = random.choice((-1, 0, 2**62, -(2**63), write.watermark + 10**6))
    return replace(
        write,
        watermark=watermark,
        seen=random.choice(((), (1, 1), (5, 3), (2**63 - 1,), (write.watermark + 3,))),
    )


def _number(random: Random, known: Known, row: Row) -> Row:
    return replace(row, table_id=random.choice((*known.numbers, *ODD_NUMBERS)))


def _number_of_guard(random: Random, known: Known, row: Row) -> Row:
    return replace(row, table_id=random.choice([n for guards in known.guards.values() for n in guards]))


def _access(random: Random, _known: Known, row: Row) -> Row:
    return replace(row, access=random.choice((GUARD, 2, 7, 99)))


def _guard_of_table(random: Random, known: Known, row: Row) -> Row:
    return Row(random.choice(tuple(known.tables)), row.key, None, False, GUARD)


def _deleted_guard(random: Random, known: Known, _row: Row) -> Row:
    return replace(random.choice(known.guard_rows), access=WRITE, deleted=True)


def _more_fields(random: Random, _known: Known, row: Row) -> Row:
    """global_t, a catalog version, gone_before, an unknown one."""
    return replace(row, more=random.choice((b"\x28\x7f", b"\x38\x05", b"\x40\x01", b"\x7a\x03abc")))


def _version(random: Random, _known: Known, write: Write) -> Write:
    return replace(write, version=random.choice((0, write.version + 1, 2**31, 2**32 - 1)))


def _tx_id(random: Random, _known: Known, write: Write) -> Write:
    return replace(write, tx_id=random.choice((b"", b"x", bytes(16), random.randbytes(17))))


SPOILERS = (
    _row_spoiler("another number", _number),
    _row_spoiler("a guard's number for a row", _number_of_guard),
    _row_spoiler("a table's number for a guard", _guard_of_table),
    _row_spoiler("a guard that is deleted", _deleted_guard),
    _row_spoiler("no image", lambda _r, _k, row: replace(row, image=None)),
    _row_spoiler("deleted, with an image", lambda _r, _k, row: replace(row, deleted=True)),
    _row_spoiler("another access", _access),
    _row_spoiler("no key", lambda _r, _k, row: replace(row, key=b"")),
    _row_spoiler("another row's image", _other_image),
    _row_spoiler("another row's key", lambda r, k, row: replace(row, key=r.choice(k.rows).key)),
    _row_spoiler("bytes of the key", _key(flipped)),
    _row_spoiler("columns of the key", _key(_of_columns)),
    _row_spoiler("a key that is NULL", _key(_null_key)),
    _row_spoiler("bytes of the image", _image(flipped), mended=False),  # in jsonb, arrays and enums
    _row_spoiler("columns of the image", _image(_of_columns)),
    _row_spoiler("values of the image", _image(_values), mended=False),
    _row_spoiler("more fields", _more_fields),
    Spoiler("twice", lambda _r, _k, write: replace(write, rows=write.rows * 2)),
    Spoiler("a unique value", _same_unique_value, mended=False),
    Spoiler("uses", _uses),
    Spoiler("changes", _changes),
    Spoiler("a snapshot", _snapshot),
    Spoiler("a version", _version),
    Spoiler("a kind", lambda r, _k, write: replace(write, kind=r.choice((SCHEMA_CHANGE, 2, 99)))),
    Spoiler("a tx_id", _tx_id),
    Spoiler("bytes", lambda r, _k, write: replace(write, spoilt=flipped(r, write.write_set())), mended=False),
)


class Writes:
    """Makes writes of what is known. The same seed makes the same ones."""

    def __init__(self, random: Random, known: Known, spoilers: tuple[Spoiler, ...]) -> None:
        self.random = random
        self.known = known
        self.spoilers = spoilers

    def valid(self, watermark: int) -> Write:
        """Rows as they were when the fuzzer began, written again, or deleted."""
        rows = []
        for row in self.random.sample(self.known.rows, self.random.randint(1, 3)):
            deleted = self.random.random() < 0.15 and self.known.tables[row.table_id] == "line"
            rows.append(Row(row.table_id, row.key, deleted=True) if deleted else row)
        guards = self.random.sample(self.known.guard_rows, self.random.randint(0, 1))
        return Write(self.random.randbytes(16), watermark, self.known.version, (*rows, *guards))

    def spoilt(self, watermark: int) -> tuple[str, Write]:
        spoiler = self.random.choice(self.spoilers)
        return spoiler.name, spoiler.spoil(self.random, self.known, self.valid(watermark))
