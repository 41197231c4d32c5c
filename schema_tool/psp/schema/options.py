"""The arguments and options that several commands of `psp schema` have."""

from __future__ import annotations

from typing import Annotated

import typer

from psp.schema.model import Mode
from psp.schema.native.capture import CaptureChoice

Dsn = Annotated[str, typer.Argument(help="libpq connection string or URI of the database.")]
LockWait = Annotated[float, typer.Option("--lock-wait", help="Seconds to wait for locks on all tables.")]

PrimaryDsn = Annotated[str, typer.Option(help="The primary's database, made by psp primary init.")]
Name = Annotated[str, typer.Option(help="The semi-primary's name in the cluster.")]
ZoneName = Annotated[str, typer.Option("--zone", help="Where it is, for people.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
CaptureMode = Annotated[Mode, typer.Option("--mode", help="How writes are captured (docs/modes.md).")]
CaptureOption = Annotated[
    CaptureChoice,
    typer.Option(
        "--capture",
        help="What captures rows and commits in native mode: the server module psp_capture, SQL, or auto: "
        "the module where the server has it (docs/capture.md).",
    ),
]
AddKeys = Annotated[
    bool, typer.Option("--add-keys", help="Give tables without a primary key a uuid column psp_key.")
]
DropForeignKeys = Annotated[
    bool,
    typer.Option(
        "--drop-foreign-keys", help="Views mode does not check foreign keys: do without until release."
    ),
]

SchemaRoles = Annotated[
    list[str] | None,
    typer.Option(
        "--schema-role",
        metavar="ROLE",
        help="Let this role change the cluster's schema; once for each role.",
    ),
]

Slots = Annotated[
    int | None,
    typer.Option(min=1, help="Most SPs there can ever be.", show_default="as the primary has"),
]
