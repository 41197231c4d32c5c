"""What the schema tool knows about a database: tables, keys, types, sequences. Plain data, no SQL."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Mode = Literal["native", "views"]
"""How a database is under psp: by triggers on its tables, or with views in their place (docs/modes.md)."""

LOCAL_OID_TYPES = frozenset(
    {
        "regclass", "regcollation", "regconfig", "regdictionary", "regnamespace", "regoper", "regoperator",
        "regproc", "regprocedure", "regrole", "regtype",
    }
)  # fmt: skip
"""Types that look like names and hold OIDs."""


@dataclass(frozen=True)
class Type:
    """A scalar type that a column's type is made of."""

    name: str  # as format_type writes it, qualified where needed
    kind: str  # typtype: b base, c composite without columns, e enum
    is_builtin: bool
    has_binary: bool  # has both a send and a receive function


@dataclass(frozen=True)
class Column:
    number: int
    name: str
    type_name: str  # with the type modifier
    not_null: bool
    identity: str  # '', 'a' always, 'd' by default
    generated: bool
    virtual: bool  # it is generated when it is read
    leaves: tuple[Type, ...]


@dataclass(frozen=True)
class IndexColumn:
    """A key column of an index: a plain column, or an expression."""

    number: int  # of the table's column; 0: an expression
    definition: str  # SQL, column names bare, everything else qualified
    collation: str | None  # qualified, when it is one that does not tell all different strings apart
    index_collation: str | None  # qualified, when it is not the database's
    equality: str | None  # OPERATOR(schema.name) of a btree operator class
    normalise: str  # sql/facts/index_column_facts.sql
    key_type: str  # of the normalised value
    plain_name: str  # of the type under all domains

    @property
    def may_be_key(self) -> bool:
        """Whether a primary key can have it under psp: equal values can be given equal bytes."""
        return self.normalise not in ("hash", "constant")


@dataclass(frozen=True)
class Index:
    oid: int
    table_oid: int
    name: str
    columns: tuple[IndexColumn, ...]  # of an exclusion constraint those that it compares by equality
    primary: bool
    unique: bool
    exclusion: bool
    valid: bool  # not what a failed CREATE INDEX CONCURRENTLY has left
    predicate: str | None
    nulls_not_distinct: bool
    deferrable: bool
    # It takes a guard: a secondary unique one, or an exclusion constraint's; not a part of a parent's index.
    guarded: bool
    guard_name: str  # by which the captured table knows it
    whole_row: bool  # an expression or the predicate takes the row as one value
    # In expressions and predicate of a superuser's table, of owners who are no superusers.
    user_functions: tuple[str, ...]


@dataclass(frozen=True)
class Trigger:
    name: str
    enabled: str  # O origin, D disabled, R replica, A always
    deferrable: bool
    before_row: bool  # BEFORE … FOR EACH ROW
    on_truncate: bool
    notifies: bool  # its function calls pg_notify


@dataclass(frozen=True)
class ForeignKey:
    name: str
    table_oid: int
    parent_oid: int
    has_action: bool  # CASCADE, SET NULL or SET DEFAULT
    is_coarse: bool  # psp cannot tell by bytes to which row another one refers
    is_to_part: bool  # to what is unique in one partition only


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
    add_key: str | None  # the statement that gives it a psp_key, if it can have one
    unsteady_checks: tuple[str, ...]  # CHECKs that look at the clock, the user or anything but the row
    invalid_checks: tuple[str, ...]  # CHECKs that are NOT VALID
    loud_rules: tuple[str, ...]  # those that are ENABLE ALWAYS or REPLICA

    @cached_property
    def label(self) -> str:
        """For people."""
        return f"{self.schema}.{self.name}"

    @cached_property
    def primary_key(self) -> Index | None:
        return next((index for index in self.indexes if index.primary), None)

    @cached_property
    def guarded_indexes(self) -> tuple[Index, ...]:
        """Secondary unique indexes and those of exclusion constraints, by name: each takes a guard."""
        indexes = (*self.indexes, *self.partition_indexes)
        return tuple(sorted((i for i in indexes if i.guarded), key=lambda i: i.guard_name))

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

    @cached_property
    def captured_tables(self) -> tuple[Table, ...]:
        return tuple(table for table in self.tables if table.is_captured)

    @cached_property
    def _captured_oids(self) -> frozenset[int]:
        return frozenset(relation.oid for table in self.captured_tables for relation in table.relations)

    def is_captured(self, oid: int) -> bool:
        """Whether it is a captured table, or a partition of one."""
        return oid in self._captured_oids


@dataclass(frozen=True)
class Stride:
    """A sequence's place: SP number s draws base + increment * (s + slots * n)."""

    schema: str
    name: str
    base: int
    increment: int
