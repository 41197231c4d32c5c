"""`psp primary`: prepares the PostgreSQL database of the primary, and compares the others with it."""

import os
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import psycopg
import typer

from psp.cluster import verify
from psp.output import Json, PspError, console, error_console, print_json
from psp.primary import losses, members
from psp.primary import promote as promotion
from psp.primary import switchover as switching
from psp.primary.cluster_key import write_cluster_key
from psp.primary.database import init_primary, schema_version, set_copies, upgrade_primary
from psp.problems import errors_shown

Dsn = Annotated[str, typer.Argument(help="libpq connection string or URI of the primary's PostgreSQL.")]

app = typer.Typer(no_args_is_help=True, help="The primary's own database: certification, log, every row.")


@app.command()
def init(dsn: Dsn) -> None:
    """Creates the psp schema in an empty database that the psp-primary daemon is to use.

    The database must exist. Applications never connect to it.

    [bold]Example[/]

        createdb psp && psp primary init "dbname=psp"
    """
    with errors_shown():
        init_primary(dsn)
    console.print("The primary's database is ready. Next: psp-primary --config primary.yaml")


@app.command()
def upgrade(dsn: Dsn) -> None:
    """Brings the psp schema of an older psp to this one's version, in one transaction.

    psp-primary must be stopped meanwhile. Its rows and decisions stay as they are.

    [bold]Example[/]

        psp primary upgrade "host=primary dbname=psp"
    """
    with errors_shown():
        found = upgrade_primary(dsn)
    if found == schema_version():
        console.print(f"The primary's schema has version {found} already.")
    else:
        console.print(
            f"The primary's schema went from version {found} to {schema_version()}. Next: psp-primary"
        )


@app.command()
def status(dsn: Dsn, json: Json = False) -> None:
    """Lists the semi-primaries, how far each one is behind, and how much of the log is kept for them.

    [bold]Example[/]

        psp primary status "host=primary dbname=psp"
    """
    with errors_shown():
        found = members.gather(dsn)
    if json:
        print_json(found)
    else:
        console.print(members.show(found))
        if (standstill := members.show_standstill(found)) is not None:
            console.print(standstill, style="bold red")
        if (hand_over := members.show_hand_over(found)) is not None:
            console.print(hand_over, style="bold red")
        if found["copies"] or found["synchronous_standby_names"]:
            console.print(members.show_copies(found))
        for table in losses.tables(found["losses"]):
            console.print(table)


@app.command()
def remove(
    dsn: Dsn,
    name: Annotated[str, typer.Argument(help="The semi-primary's name.")],
    force: Annotated[
        bool, typer.Option("--force", help="Even if it is connected: its applications can commit no more.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Removes a semi-primary whose server is lost: the primary no longer keeps the log for it.

    It can never come back, except by joining again with an empty database. Where its database still exists,
    `psp schema release --primary-dsn` does this and makes it a plain database again. One that is connected is
    not removed without --force.

    [bold]Example[/]

        psp primary remove "host=primary dbname=psp" tokyo
    """

    def confirm(loss: str) -> None:
        if not yes:
            typer.confirm(f"{loss} Go on?", abort=True, err=True)

    with errors_shown():
        members.remove(dsn, name, force=force, confirm=confirm)
    console.print(f"{name} is no longer a semi-primary of the cluster.")


@app.command()
def copies(
    dsn: Dsn,
    number: Annotated[
        int | None, typer.Argument(min=0, help="At least so many synchronous standbys. Left out: only tells.")
    ] = None,
) -> None:
    """Sets how many synchronous standbys a decision must be on before psp-primary tells it.

    What synchronous_standby_names asks for counts as well, if it is more. This number stays when that
    list is emptied and when a standby is promoted: COMMITs then wait until there are so many standbys again,
    or until the number is lowered. psp-primary, if it runs, takes a new number within about a second.

    [bold]Examples[/]

        psp primary copies "host=primary dbname=psp" 1
        psp primary copies "host=primary dbname=psp" 0   # without a standby
    """
    with errors_shown():
        if number is not None:
            set_copies(dsn, number)
        found = members.gather(dsn)
    console.print(members.show_copies(found))


@app.command()
def promote(
    dsn: Dsn,
    sp_dsns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SP_DSN...]", help="The databases of all semi-primaries that can be reached."
        ),
    ] = None,
    old: Annotated[
        str | None,
        typer.Option(help="The old server. Left out: the one that the standby streams from."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also if something was found, which is printed.")
    ] = False,
    timeout_s: Annotated[int, typer.Option(min=1, help="How long the promotion may take.")] = 60,
) -> None:
    """Promotes a streaming standby of the primary's server, where no tool such as Patroni does it.

    First it looks: the old server must not answer, and the standby must have all that the semi-primaries
    know of. Otherwise nothing is done without --force. Afterwards it says what is left to do.

    [bold]Example[/]

        psp primary promote "host=p2 dbname=psp" "host=db dbname=shop" \\
            "host=db2 dbname=shop"
    """
    with errors_shown():
        followed = [promotion.look_at_sp(sp_dsn) for sp_dsn in sp_dsns or ()]
        standby = promotion.look_replayed(dsn)
        found = list(promotion.objections(standby, promotion.look_at_old(old or standby.old_dsn), followed))
        if found and not force:
            raise PspError(
                "the standby is not promoted:\n" + "\n".join(f"- {one}" for one in found),
                "--force promotes it all the same: transactions that were told as committed may be lost, "
                "or two servers may decide side by side",
            )
        for one in found:
            error_console.print(f"Not heeded: {one}", style="bold red")
        with psycopg.connect(dsn, connect_timeout=promotion.CONNECT_S, autocommit=True) as connection:
            server = promotion.promote(connection, timeout_s)
    console.print(f"The server is writable, with transactions up to {server.newest_t}. Next:")
    for step in promotion.next_steps(dsn, server):
        console.print(f"- {step}")


@app.command()
def switchover(
    old_dsn: Annotated[str, typer.Argument(help="The primary's database at the server that it has now.")],
    standby_dsn: Annotated[str, typer.Argument(help="The same at its standby, which takes its place.")],
    force: Annotated[
        bool, typer.Option("--force", help="Also if something was found, which is printed.")
    ] = False,
    stop: Annotated[
        str | None,
        typer.Option(help="A command that stops the old server in fast mode, before the promotion."),
    ] = None,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Take an unfinished one back: the old server goes on.")
    ] = False,
    timeout_s: Annotated[int, typer.Option(min=1, max=90, help="How long each step may take.")] = 20,
) -> None:
    """For planned work: a streaming standby takes the primary's place, and no COMMIT fails.

    The old server lives at first, with a psp-primary beside it and one beside the standby. COMMITs wait for
    about a second. If a step before the promotion fails, all is taken back, and the old server goes on. With
    --stop the old server can follow the new one as it is; otherwise it goes on without psp, and then needs
    pg_rewind. Where Patroni is, patronictl switches.

    [bold]Examples[/]

        psp primary switchover "host=p1 dbname=psp" "host=p2 dbname=psp"
        psp primary switchover "host=p1 dbname=psp" "host=p2 dbname=psp" \\
            --stop "ssh p1 systemctl stop postgresql"
        psp primary switchover "host=p1 dbname=psp" "host=p2 dbname=psp" \\
            --withdraw   # the command was killed before it was done
    """
    with errors_shown(), switching.at_old(old_dsn) as old:
        if withdraw:
            _withdraw(old, standby_dsn, force)
        else:
            _switch(
                old, standby_dsn, force, timeout_s, None if stop is None else partial(_run, stop, timeout_s)
            )


def _run(command: str, timeout_s: int) -> None:
    """With all that it has started it is killed when it takes too long."""
    with subprocess.Popen(command, shell=True, start_new_session=True) as process:
        try:
            code = process.wait(timeout_s)
        except BaseException as problem:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(problem, subprocess.TimeoutExpired):
                raise PspError(
                    f"the command to stop the old server took {timeout_s} s: {command}"
                ) from problem
            raise
    if code != 0:
        raise PspError(f"the command to stop the old server has ended with {code}: {command}")


def _withdraw(old: switching.Connection, standby_dsn: str, force: bool) -> None:
    if force:
        was_asked = switching.withdraw(old, even_if_promoting=True)
    else:
        was_asked = switching.withdraw_checked(old, standby_dsn)
    if was_asked:
        console.print("Withdrawn: the old server's psp-primary begins again, within a second if it runs.")
    else:
        console.print("There was nothing to withdraw.")


def _switch(
    old: switching.Connection,
    standby_dsn: str,
    force: bool,
    timeout_s: int,
    stop: Callable[[], None] | None,
) -> None:
    with switching.at_standby(standby_dsn) as standby:
        source, target = switching.look_at_source(old), switching.look_at_target(standby)
        switching.refuse_unfit(source, target)
        switching.refuse_unserved(source)
        found = list(switching.objections(source, target))
        if found and not force:
            raise PspError(
                "nothing was switched:\n" + "\n".join(f"- {one}" for one in found),
                "--force switches all the same",
            )
        for one in found:
            error_console.print(f"Not heeded: {one}", style="bold red")
        if source.was_asked:
            console.print("An earlier one is finished: COMMITs wait only for as long as that one has told.")
        done = switching.switch(old, standby, timeout_s, console.print, stop)
    if done.seconds is None:
        console.print(
            "The standby is writable, and no psp-primary has begun there yet: its log tells why. Next:",
            style="bold red",
        )
    else:
        console.print(f"The new server decides. Nothing was decided for {done.seconds:.1f} s. Next:")
    for step in switching.next_steps(standby_dsn, done):
        console.print(f"- {step}")


@app.command()
def key(file: Annotated[Path, typer.Argument(help="The file to make; it must not exist.")]) -> None:
    """Makes the key with which a cluster's daemons encrypt their connections and know one another.

    Copy the file to the primary and to each semi-primary, readable by the daemon's user only, and name it
    in the setting key_file of all of them.

    [bold]Example[/]

        psp primary key /etc/psp/cluster.key
    """
    with errors_shown():
        write_cluster_key(file)
    console.print(f"{file} is made. Next: key_file: {file.resolve()} in the configuration of every daemon")


@app.command("verify")
def run_verify(
    dsn: Dsn,
    sp_dsns: Annotated[
        list[str], typer.Argument(metavar="SP_DSN...", help="The semi-primaries' databases, as a superuser.")
    ],
    json: Json = False,
    timeout_s: Annotated[float, typer.Option(help="How long the streams may take to drain.")] = 60,
) -> None:
    """Compares the rows of semi-primaries with the primary's by checksums; writers should pause.

    The semi-primaries' schemas are compared, too, where psp keeps them the same.
    Ends with code 1 if anything differs.

    [bold]Example[/]

        psp primary verify "host=primary dbname=psp" "host=db dbname=shop" \\
            "host=db2 dbname=shop"
    """
    with errors_shown():
        result = verify.verify_servers(dsn, verify.named(sp_dsns), timeout_s)
    verify.show(result, json)
