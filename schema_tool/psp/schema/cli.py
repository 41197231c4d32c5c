"""`psp schema`: check, adopt, join, history, refresh, convert, release, dump, load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich import progress as bars
from rich.text import Text

from psp.cluster.check import check_semi_primary, compare_with
from psp.output import Json, PspError, console, error_console, print_json
from psp.problems import Problem, errors_shown, has_errors, print_problems, sort
from psp.schema import changers, clients_out
from psp.schema.adopt import Options, adopt
from psp.schema.catalog import read_database
from psp.schema.history import read_history, show
from psp.schema.join import Replaces, prepare_join
from psp.schema.loss import accept_loss
from psp.schema.materialized import refresh
from psp.schema.modes import check, check_rights
from psp.schema.native.capture import CaptureChoice
from psp.schema.native.capture import use as use_capture
from psp.schema.options import (
    AddKeys,
    CaptureMode,
    CaptureOption,
    DropForeignKeys,
    Dsn,
    LockWait,
    Name,
    PrimaryDsn,
    SchemaRoles,
    Slots,
    Yes,
    ZoneName,
)
from psp.schema.plain_dump_cli import add_commands
from psp.schema.release import release
from psp.schema.rights import missing_rights
from psp.schema.server import UnfitError, read_facts
from psp.schema.views import convert as views
from psp.schema.views.scratch import convert_file
from psp.sessions import open_session
from psp.sql_files import constant

app = typer.Typer(no_args_is_help=True, help="Puts a database under psp, and takes it out again.")
add_commands(app)


@app.command("check")
def check_command(
    dsn: Dsn,
    sp_dsns: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SP_DSN]...", help="Other semi-primaries of its cluster, to compare with."),
    ] = None,
    slots: Slots = None,
    add_keys: AddKeys = False,
    mode: CaptureMode = "native",
    drop_foreign_keys: DropForeignKeys = False,
    json: Json = False,
) -> None:
    """Lists everything that stands in the way of adoption, all at once. Changes nothing.

    Of a database that is under psp: what stands in the way of schema changes. Compared with other
    semi-primaries, also before it joins them: roles, tablespaces, extensions and objects that differ.

    Errors make adoption, or coming schema changes, impossible: the exit code is 1 if there is any. Warnings
    will behave otherwise than before, notes are worth knowing. The options are those that adopt will get.

    [bold]Examples[/]

        psp schema check "host=db dbname=shop"
        psp schema check "host=db dbname=shop" --mode views --json
        psp schema check "host=db dbname=shop" "host=db2 dbname=shop" \\
            "host=db3 dbname=shop"
    """
    is_sp = False
    with errors_shown(), open_session(dsn) as connection:
        connection.read_only = True
        try:
            facts = read_facts(connection)
            is_sp = facts.adopted
            problems = check_rights(connection, mode)
            readable = not has_errors(problems)
            if readable and is_sp:
                problems = sort([*problems, *check_semi_primary(connection, facts, is_alone=not sp_dsns)])
            elif readable:
                problems = check(
                    connection, read_database(connection), mode, slots or constant("SLOTS"),
                    add_keys=add_keys, drop_foreign_keys=drop_foreign_keys,
                )  # fmt: skip
            if readable and sp_dsns:
                problems = sort([*problems, *compare_with(connection, facts, sp_dsns)])
        except UnfitError as error:
            problems = [Problem("error", error.where, error.problem, error.hint or "")]
    if json:
        adoptable = not is_sp and not has_errors(problems)
        print_json({"adoptable": adoptable, "problems": [p.as_dict() for p in problems]})
    else:
        print_problems(problems)
    if has_errors(problems):
        raise typer.Exit(1)


class _Bar:
    """Progress on the terminal's stderr."""

    def __init__(self, bar: bars.Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("copying rows to the primary", total=None, visible=False)

    def say(self, text: str) -> None:
        self._bar.console.print(Text(text))

    def rows(self, table: str, done: int, total: int) -> None:
        label = f"copying {table}" if table else "copied"
        self._bar.update(self._task, description=label, completed=done, total=max(total, 1), visible=True)


def _tell_what_is_missing(dsn: str) -> None:
    """What psp does without, as the role is no superuser. Errors are told when the work begins."""
    with errors_shown(), open_session(dsn) as connection:
        for problem in missing_rights(connection):
            if problem.severity == "warning":
                _say(f"{problem.object}: {problem.problem}")


@app.command("adopt")
def adopt_command(
    dsn: Dsn,
    primary_dsn: PrimaryDsn,
    name: Name,
    zone: ZoneName = "",
    slots: Slots = None,
    add_keys: AddKeys = False,
    mode: CaptureMode = "native",
    drop_foreign_keys: DropForeignKeys = False,
    capture: CaptureOption = "auto",
    replace: Annotated[
        bool, typer.Option("--replace", help="Even if the primary has the only copy of rows adopted before.")
    ] = False,
    schema_role: SchemaRoles = None,
    yes: Yes = False,
    lock_wait: LockWait = 60.0,
) -> None:
    """Makes a live database the first semi-primary of a cluster, in place.

    Either finishes or leaves the database as it was. Writers wait at its end; readers do not, but for the
    moment in which views mode puts views in the tables' place. When all semi-primaries of a cluster have been
    released, one of their databases can be adopted again; psp-primary must be stopped meanwhile.

    [bold]Example[/]

        psp schema adopt "host=db dbname=shop" --name lisbon --schema-role shop \\
            --primary-dsn "host=primary dbname=psp"
    """
    _tell_what_is_missing(dsn)
    if not yes:
        typer.confirm(
            "The rows are copied to the primary, then writers wait for a moment. Go on?", abort=True, err=True
        )
    options = Options(
        name, zone, slots, add_keys, lock_wait, mode, drop_foreign_keys, capture, replace, schema_role or ()
    )
    columns = (
        bars.TextColumn("{task.description}", markup=False), bars.BarColumn(), bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(),
    )  # fmt: skip
    with errors_shown(), bars.Progress(*columns, console=error_console) as bar:
        sp_id = adopt(dsn, primary_dsn, options, _Bar(bar))
    console.print(Text(f"{name} is semi-primary {sp_id}. Next: psp-semi-primary --config FILE"))
    _tell_who_may_not_change(dsn)


@app.command("join")
def join_command(
    dsn: Dsn, primary_dsn: PrimaryDsn, name: Name, zone: ZoneName = "", capture: CaptureOption = "auto",
    schema_role: SchemaRoles = None,
    schema_from: Annotated[
        str | None,
        typer.Option(
            metavar="DSN",
            help="Start from the schema of this semi-primary's database, as a superuser.",
            show_default="run all schema changes again",
        ),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="In place of the semi-primary of this name, whose server is lost."),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --replace: also of one that is connected.")
    ] = False,
    yes: Yes = False,
) -> None:  # fmt: skip
    """Makes an empty database a further semi-primary of the cluster, in the cluster's mode.

    With --schema-from it starts from the schema that a semi-primary has now, and runs only later schema
    changes. Without, it starts from the adopted schema and runs all: where no semi-primary can be reached.

    The command restores the schema; roles that it names are created where they are missing, without LOGIN.
    The semi-primary's daemon, once started, copies the rows while the others commit; until the copy is
    complete, only superusers and members of pg_monitor can connect: clients would read empty or incomplete
    tables. Then psp schema refresh fills materialized views.

    With --replace the semi-primary of this name leaves the cluster in the same moment, as by psp primary
    remove: it can never come back. The command tells what is lost, and asks.

    [bold]Example[/]

        psp schema join "host=db2 dbname=shop" --name tokyo \\
            --primary-dsn "host=primary dbname=psp" \\
            --schema-from "host=db dbname=shop"
    """
    _tell_what_is_missing(dsn)
    columns = (
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}", markup=False),
        bars.TimeElapsedColumn(),
    )
    with errors_shown(), bars.Progress(*columns, console=error_console, transient=True) as bar:
        task = bar.add_task("joining", total=None)

        def say(text: str) -> None:
            bar.update(task, description=text[:60])
            _say(text)

        def confirm(loss: str) -> None:
            if not yes:
                bar.stop()
                typer.confirm(f"{loss} Replace it?", abort=True, err=True)
                bar.start()

        sp_id = prepare_join(
            dsn, primary_dsn, name, zone, capture, schema_role or (), schema_from=schema_from, say=say,
            replaces=_replaces(replace, force), confirm=confirm,
        )  # fmt: skip
    console.print(Text(f"{name} is semi-primary {sp_id}. To copy the rows: psp-semi-primary --config FILE"))
    with errors_shown():
        _say(clients_out.advice(dsn))
    _tell_who_may_not_change(dsn)


def _replaces(replace: bool, force: bool) -> Replaces:
    if force and not replace:
        raise typer.BadParameter("it goes with --replace", param_hint="--force")
    return Replaces.NOBODY if not replace else Replaces.ALSO_CONNECTED if force else Replaces.LOST


def _tell_who_may_not_change(dsn: str) -> None:
    """Owners of captured tables whose schema changes are refused from now on."""
    with errors_shown(), open_session(dsn) as connection:
        facts = read_facts(connection)
        if facts.adopted and facts.superuser:  # without a superuser there are no schema changes
            for line in changers.advice(changers.read_owners(connection)):
                _say(line)


def _say(text: str) -> None:
    error_console.print(Text(text))


@app.command("capture")
def capture_command(
    dsn: Dsn, wanted: Annotated[CaptureChoice, typer.Argument(help="auto, sql or module.")]
) -> None:
    """Changes what captures rows and commits at a running semi-primary: the server module, or SQL.

    Nothing else changes: not the rows, not the stream, not the errors. Writers wait for a moment.

    [bold]Example[/]

        psp schema capture "host=db dbname=shop" module
    """
    with errors_shown(), open_session(dsn) as connection:
        chosen = use_capture(connection, wanted)
    console.print(Text(f"Rows are captured by {'the server module' if chosen == 'module' else 'SQL'}."))


@app.command("refresh")
def refresh_command(dsn: Dsn) -> None:
    """Fills the materialized views of a semi-primary that has joined, once its copy of the rows is complete.

    Each semi-primary refreshes materialized views for itself. The command takes those that have no rows yet.

    [bold]Example[/]

        psp schema refresh "host=db2 dbname=shop"
    """
    with errors_shown():
        console.print(Text(f"{refresh(dsn, _say)} materialized views refreshed"))


@app.command("history")
def history_command(
    dsn: Dsn,
    primary_dsn: Annotated[
        str | None, typer.Option(help="The primary's database, to show each change's place in the stream.")
    ] = None,
    json: Json = False,
) -> None:
    """Lists the schema changes that psp.ddl has run: who changed what, where it ran first, and when.

    Statements may contain secrets: superusers and members of pg_monitor may read them.

    [bold]Example[/]

        psp schema history "host=db dbname=shop" \\
            --primary-dsn "host=primary dbname=psp"
    """
    with errors_shown():
        statements = read_history(dsn, primary_dsn)
    if json:
        print_json(statements)
    else:
        console.print(show(statements))


@app.command("convert")
def convert_command(
    source: Annotated[str, typer.Argument(help="Connection string of a database, or a .sql file.")],
    mode: Annotated[Literal["views"], typer.Option(help="The capture mode to convert to.")] = "views",
    drop_foreign_keys: DropForeignKeys = False,
    lock_wait: LockWait = 60.0,
) -> None:
    """Makes each table a view over T_persistent and T_temp (views mode, docs/modes.md).

    A database is converted in place, in one transaction; a .sql file is converted to stdout. It then belongs
    to no cluster. For a cluster use psp schema adopt --mode views, which converts by itself.

    [bold]Examples[/]

        psp schema convert "host=db dbname=shop"
        psp schema convert schema.sql > converted.sql
    """
    options = views.Options(drop_foreign_keys, lock_wait)
    with errors_shown():
        if source.endswith(".sql") and "=" not in source and not Path(source).is_file():
            raise PspError(f"there is no file {source}")
        if Path(source).is_file():
            script, problems = convert_file(Path(source), options, _say)
            print(script)
        else:
            problems = views.convert(source, options, _say)
            _say("converted: psp schema release brings the plain tables back")
    if problems:
        print_problems(problems, error_console)


@app.command("accept-loss")
def accept_loss_command(dsn: Dsn, yes: Yes = False) -> None:
    """Lets a semi-primary follow a primary that lacks what this semi-primary has followed.

    It waits for the newest primary that it knows of. Where that one is lost for good, or a backup of the
    primary was restored on purpose, say so here at each semi-primary, and start its psp-semi-primary again.
    Transactions that the restored primary lacks stay lost; a semi-primary that has one of them must join
    again, and its log says so.

    [bold]Example[/]

        psp schema accept-loss "host=db dbname=shop"
    """
    if not yes:
        typer.confirm(
            "Is the newer primary lost for good, and may what it alone has be lost?", abort=True, err=True
        )
    with errors_shown():
        accept_loss(dsn)
    console.print(Text("Now start psp-semi-primary again."))


@app.command("release")
def release_command(
    dsn: Dsn,
    primary_dsn: Annotated[str | None, typer.Option(help="The primary's database, to be told.")] = None,
    drop_keys: Annotated[
        bool, typer.Option("--drop-keys", help="Drop the psp_key columns of --add-keys, too.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Even if the daemon seems to run, transactions are unfinished, or committed ones missing.",
        ),
    ] = False,
    yes: Yes = False,
    lock_wait: LockWait = 60.0,
) -> None:
    """Takes psp out of a database and leaves a plain one, with all its rows.

    Stop its psp-semi-primary first. With --primary-dsn the command looks whether all committed transactions
    are here, and the primary no longer waits for this semi-primary.

    [bold]Example[/]

        psp schema release "host=db dbname=shop" \\
            --primary-dsn "host=primary dbname=psp"
    """

    def confirm(warnings: list[str]) -> None:
        for warning in warnings:
            _say(f"warning: {warning}")
        if not yes:
            typer.confirm("Make it a plain database?", abort=True, err=True)

    with errors_shown():
        release(
            dsn,
            primary_dsn,
            drop_keys=drop_keys,
            force=force,
            lock_wait_s=lock_wait,
            say=_say,
            confirm=confirm,
        )
    console.print("released: a plain database again")
