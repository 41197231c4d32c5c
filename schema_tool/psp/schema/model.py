"""What the schema tool knows about a database: tables, keys, types, sequences. Plain data, no SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

Encoding = Literal["binary", "text"]

Mode = Literal["native", "views"]
"""How a database is under psp: by triggers on its tables, or with views in their place (docs/modes.md)."""

FIRST_USER_OID = 16384
"""Objects from here on are made by users: their OIDs differ from database to database."""

LOCAL_OID_TYPES = frozenset(
    {
        "regclass", "regcollation", "regconfig", "regdictionary", "regnamespace", "regoper", "regoperator",
        "regproc", "regprocedure", "regrole", "regtype",
    }
)  # fmt: skip
"""Types that look like names and hold OIDs."""


BINARY_SAFE_TYPES = frozenset(
    {
        "smallint", "integer", "bigint", "oid", "real", "double precision", "numeric", "money", "boolean",
        "text", "character varying", "character", "bpchar", "name", '"char"', "bytea", "json", "jsonb",
        "uuid", "date", "time without time zone", "time with time zone", "timestamp without time zone",
        "timestamp with time zone", "interval", "inet", "cidr", "macaddr", "macaddr8", "bit",
        '"bit"', "bit varying", "pg_lsn", "point", "lseg", "box", "tid",
        "xid", "xid8", "cid",
    }
)  # fmt: skip
"""Built-in types of which every value's binary form is accepted by every server, and gives the same value."""

TEXT_SAFE_TYPES = BINARY_SAFE_TYPES | {"tsquery"}
"""Built-in types of which every value's text is accepted. (Some releases refuse the binary form of an empty
tsquery.)"""


@dataclass(frozen=True)
class Type:
    """One row of pg_type, of a type that some column uses, directly or inside another type."""

    oid: int
    name: str  # as format_type writes it, qualified where needed
    kind: str  # typtype: b base, c composite, d domain, e enum, r range, m multirange
    base: int  # of a domain, 0 otherwise
    base_name: str | None  # of a domain, with the type modifier
    element: int  # of a true array, 0 otherwise
    parts: tuple[int, ...]  # types of a composite's columns, a range's subtype
    has_binary: bool  # has both a send and a receive function
    has_array: bool

    @property
    def builtin_name(self) -> str:
        """Of a built-in type, also where a user's type of that name comes before it in the search_path."""
        return self.name.removeprefix("pg_catalog.")


@dataclass(frozen=True)
class Column:
    number: int
    name: str
    type_oid: int
    type_name: str  # with the type modifier
    type_modifier: int
    not_null: bool
    identity: str  # '', 'a' always, 'd' by default
    generated: bool


@dataclass(frozen=True)
class IndexColumn:
    """A key column of an index: a plain column, or an expression."""

    number: int  # of the table's column; 0: an expression
    definition: str  # SQL, column names bare, everything else qualified
    type_oid: int
    type_name: str
    type_modifier: int
    equal_image: bool  # equal for the operator class means equal bytes
    collation: str | None  # qualified, when it is one that does not tell all different strings apart
    index_collation: str | None  # qualified, when it is not the database's
    equality: str | None  # OPERATOR(schema.name) of a btree operator class
    hash_function: str | None  # qualified name of f(type, bigint) that agrees with the operator class


@dataclass(frozen=True)
class Index:
    oid: int
    table_oid: int
    name: str
    columns: tuple[IndexColumn, ...]
    primary: bool
    unique: bool
    exclusion: bool
    valid: bool  # not what a failed CREATE INDEX CONCURRENTLY has left
    predicate: str | None
    nulls_not_distinct: bool
    deferrable: bool
    attached: bool  # a partition's index that belongs to an index of its parent
    referenced: tuple[int, ...]  # columns in keys, expressions and predicate
    whole_row: bool  # an expression or the predicate takes the row as one value
    # In expressions and predicate of a superuser's table, of owners who are no superusers.
    user_functions: tuple[str, ...]
    calls_users_code: bool  # expressions or predicate call functions, operators or domains that users made


@dataclass(frozen=True)
class Trigger:
    name: str
    enabled: str  # O origin, D disabled, R replica, A always
    deferrable: bool


@dataclass(frozen=True)
class ForeignKey:
    name: str
    table_oid: int
    parent_oid: int
    has_action: bool  # CASCADE, SET NULL or SET DEFAULT


@dataclass(frozen=True)
class Relation:
    """One thing triggers can be put on: the table itself, or a partition of it at any level."""

    oid: int
    schema: str
    name: str
    kind: str  # r, p or f


@dataclass(frozen=True)
class Table:
    """An ordinary table or the root of a partitioned one; its partitions are in `relations`."""

    oid: int
    schema: str
    name: str
    kind: str  # r ordinary, p partitioned, f foreign
    persistence: str  # p permanent, u unlogged
    row_security_forced: bool
    owner_writes: bool
    rows_about: int  # PostgreSQL's estimate; by the size where it has never analysed the table
    bytes: int
    parents: tuple[str, ...]  # of INHERITS
    relations: tuple[Relation, ...]
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...]  # unique and exclusion ones, of the table
    partition_indexes: tuple[Index, ...]  # those of its partitions
    triggers: tuple[Trigger, ...]
    foreign_keys: tuple[ForeignKey, ...]
    partition_columns: tuple[int, ...]  # numbers; 0: an expression
    unsteady_checks: tuple[str, ...]  # CHECKs that look at the clock, the user or anything but the row
    invalid_checks: tuple[str, ...]  # CHECKs that are NOT VALID

    @cached_property
    def label(self) -> str:
        """For people."""
        return f"{self.schema}.{self.name}"

    @cached_property
    def primary_key(self) -> Index | None:
        return next((index for index in self.indexes if index.primary), None)

    @cached_property
    def guarded_indexes(self) -> tuple[Index, ...]:
        """Secondary unique indexes, by name: each takes a guard."""
        found = (i for i in self.indexes if i.unique and not i.primary and not i.exclusion)
        return tuple(sorted(found, key=lambda i: i.name))

    @cached_property
    def image_columns(self) -> tuple[Column, ...]:
        """Generated columns are computed again where the row is applied."""
        return tuple(column for column in self.columns if not column.generated)

    @property
    def is_captured(self) -> bool:
        """Unlogged and foreign tables stay local."""
        return self.kind in "rp" and self.persistence == "p"

    def column(self, number: int) -> Column:
        return next(column for column in self.columns if column.number == number)


@dataclass(frozen=True)
class Sequence:
    oid: int
    schema: str
    name: str
    start: int
    minimum: int
    maximum: int
    increment: int
    cycle: bool
    last_value: int
    is_called: bool
    owner: tuple[str, str, str] | None  # schema, table, column
    owner_bits: int  # of the owner's type: 16, 32 or 64

    @property
    def label(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def range(self) -> tuple[int, int]:
        """The largest and the smallest number: of the sequence, or of the column that owns it."""
        ends = 1 << (self.owner_bits - 1)
        return min(self.maximum, ends - 1), max(self.minimum, -ends)

    @property
    def base(self) -> int:
        """The last value drawn; draws go on at base + increment."""
        return self.last_value if self.is_called else self.last_value - self.increment


@dataclass(frozen=True)
class Database:
    name: str
    version: int  # as server_version_num
    tables: tuple[Table, ...]
    sequences: tuple[Sequence, ...]
    types: Mapping[int, Type] = field(repr=False)

    @cached_property
    def captured_tables(self) -> tuple[Table, ...]:
        return tuple(table for table in self.tables if table.is_captured)

    def is_captured(self, oid: int) -> bool:
        """Whether it is a captured table, or a partition of one."""
        return any(oid == relation.oid for table in self.captured_tables for relation in table.relations)

    def encoding(self, type_oid: int) -> Encoding:
        """How values travel. As text if the image would hold OIDs that another database does not share.

        Arrays and composites embed OIDs in their values, and record_send writes each column's type OID in
        the image: so types that users make (enums, domains, extensions' types) go as text, too. So do the
        built-in types whose binary form loses something (xml) or is not accepted everywhere (tsquery).
        """
        found = self.types[type_oid]
        if type_oid >= FIRST_USER_OID or found.element or found.kind == "c" or not found.has_array:
            return "text"
        if found.kind == "d":
            return self.encoding(found.base)
        if found.kind in "rm":
            return "text" if any(self.encoding(part) == "text" for part in found.parts) else "binary"
        return "binary" if found.builtin_name in BINARY_SAFE_TYPES else "text"

    def checked_as(self, type_oid: int) -> str | None:
        """The type as which a value's text is read where it is written; None if it is always accepted.

        Functions can make values that their own type does not read, such as circle(point(0, 0), -1). One
        that others would refuse must be refused here. Only built-in types: a cast of others may be a user's
        function.
        """
        plain = self.plain_type(type_oid)
        leaves = list(self.leaves(plain.oid))
        if plain.oid >= FIRST_USER_OID or any(leaf.oid >= FIRST_USER_OID for leaf in leaves):
            return None
        if all(leaf.builtin_name in TEXT_SAFE_TYPES for leaf in leaves):
            return None
        return f"pg_catalog.{plain.builtin_name}"

    def is_users(self, type_oid: int) -> bool:
        """Whether a user may have made casts of the type: its own, its elements', or that under a domain."""
        plain = self.plain_type(type_oid)
        return plain.oid >= FIRST_USER_OID

    def leaves(self, type_oid: int) -> Iterator[Type]:
        """The scalar types that a type is made of."""
        found = self.types[type_oid]
        inside = (found.base, found.element, *found.parts)
        parts = [oid for oid in inside if oid]
        if not parts:
            yield found
        for part in parts:
            yield from self.leaves(part)

    def plain_type(self, type_oid: int) -> Type:
        """The type under all domains; any other type as it is."""
        found = self.types[type_oid]
        return self.plain_type(found.base) if found.kind == "d" else found


@dataclass(frozen=True)
class Stride:
    """A sequence's place: SP number s draws base + increment * (s + slots * n)."""

    schema: str
    name: str
    base: int
    increment: int
