"""`psp cluster`: local clusters on throw-away PostgreSQL servers."""

import dataclasses
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from psp.cluster import growth, state, status, verify
from psp.cluster.configs import APP_ROLE, PRIMARY
from psp.cluster.local import LocalCluster, Options, Part, Zone
from psp.console.cli import LOOPBACK, PORT, read_access, serve
from psp.output import Json, PspError, console, print_json
from psp.paths import postgres_program
from psp.problems import errors_shown
from psp.schema.options import AddKeys, CaptureMode, DropForeignKeys
from psp.watch.cli import sources

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""Local clusters: a primary and any number of semi-primaries (SPs) on this machine.

The PostgreSQL servers are throw-away: made by `up`, open to everybody on this machine, removed by `down`.
""",
)

Name = Annotated[str, typer.Option("--name", help="The cluster's name; several can run at once.")]
Dir = Annotated[
    Path | None,
    typer.Option("--dir", help="The cluster's folder.", show_default="/var/tmp/psp-UID/NAME"),
]
Node = Annotated[str, typer.Argument(help="`primary`, or an SP's name.")]
PartOption = Annotated[
    Part | None, typer.Option("--part", help="One part of it only.", show_default="all of it")
]


def _directory(name: str, directory: Path | None) -> Path:
    return (directory or state.default_directory(name)).resolve()


@contextmanager
def _opened(name: str, directory: Path | None, exclusive: bool = False) -> Iterator[LocalCluster]:
    with errors_shown():
        folder = _directory(name, directory)
        if exclusive:
            with state.locked(folder):
                yield LocalCluster.open(folder, console.print)
        else:
            yield LocalCluster.open(folder, console.print)


def _parse_zone(text: str) -> Zone:
    name, equals, rtt = text.partition("=")
    try:
        rtt_ms = float(rtt) if equals else 0.0
    except ValueError:
        rtt_ms = -1.0
    if not name or not 0 <= rtt_ms <= 10_000:
        raise PspError(f"--zone {text}: not NAME=ROUND_TRIP_MS", "for example: --zone tokyo=190")
    return Zone(name, rtt_ms)


def _parse_versions(texts: list[str]) -> dict[str, int]:
    """Major versions by the node's name; `""` has the one of all others."""
    versions = {}
    for text in texts:
        node, _, version = text.rpartition("=")
        if not version.isdecimal():
            raise PspError(
                f"--postgres {text}: not VERSION or NAME=VERSION", "for example: --postgres tokyo=17"
            )
        versions[node] = int(version)
    return versions


def _parse_settings(texts: list[str]) -> dict[str, str]:
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.replace(".", "").replace("_", "").isalnum():
            raise PspError(f"--pg-conf {text}: not key=value", "for example: --pg-conf work_mem=64MB")
        settings[key] = value
    return settings


@app.command()
def up(
    name: Name = "demo",
    sps: Annotated[int, typer.Option(min=1, max=64, help="How many SPs: sp1, sp2 and so on.")] = 3,
    zone: Annotated[
        list[str] | None, typer.Option(help="An SP in a zone, NAME=ROUND_TRIP_MS; once for each SP.")
    ] = None,
    directory: Dir = None,
    db: Annotated[str, typer.Option(help="The name of the SPs' database.")] = "app",
    schema: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="SQL to run at the first SP before it is adopted."),
    ] = None,
    port_base: Annotated[
        int | None, typer.Option(min=1024, max=65000, help="Take free ports from here on.")
    ] = None,
    pg_conf: Annotated[
        list[str] | None, typer.Option("--pg-conf", help="key=value for every PostgreSQL server.")
    ] = None,
    postgres: Annotated[
        list[str] | None,
        typer.Option(help="VERSION of every server, or NAME=VERSION of one: PostgreSQL's major version."),
    ] = None,
    no_relay: Annotated[
        bool, typer.Option("--no-relay", help="No simulated distance: the zones' round trips are ignored.")
    ] = False,
    mode: CaptureMode = "native",
    add_keys: AddKeys = False,
    drop_foreign_keys: DropForeignKeys = False,
    show: Annotated[
        bool, typer.Option("--console", help="Then serve psp console, until Ctrl-C; the cluster stays.")
    ] = False,
) -> None:
    """Makes and starts a cluster, or starts one again that was stopped with its data kept.

    [bold]Examples[/]

        psp cluster up                                    # three SPs, no distance
        psp cluster up --zone lisbon=30 --zone tokyo=190  # two, far away
        psp cluster up --schema tables.sql --console      # with tables
        psp cluster up --pg-conf shared_buffers=1GB
        psp cluster up --postgres 17 --postgres sp2=18    # versions
        psp cluster up --mode views                       # docs/modes.md
    """
    with errors_shown():
        folder = _directory(name, directory)
        with state.locked(folder):
            found = state.load(folder)
            if found is not None and found.complete:
                cluster = LocalCluster(found, console.print)
                _resume(cluster)
            else:
                versions = _parse_versions(postgres or [])
                every = versions.pop("", 0)
                primary_postgres = versions.pop(PRIMARY, every)
                zones = [_parse_zone(text) for text in zone or [f"sp{n + 1}=0" for n in range(sps)]]
                zones = [dataclasses.replace(z, postgres=versions.pop(z.name, every)) for z in zones]
                if versions:
                    raise PspError(f"--postgres {next(iter(versions))}=…: the cluster has no such server")
                options = Options(
                    name=name, directory=folder, database=db, port_base=port_base, relay=not no_relay,
                    pg_settings=_parse_settings(pg_conf or []), mode=mode, primary_postgres=primary_postgres,
                )  # fmt: skip
                cluster = LocalCluster.create(zones, options, console.print)
                if schema is not None:
                    _adopt_with_schema(cluster, schema, add_keys, drop_foreign_keys)
        _print_next_steps(cluster)
        if show:
            _serve_console(cluster)


def _serve_console(cluster: LocalCluster) -> None:
    """Until Ctrl-C."""
    servers = sources([], cluster.state.name, cluster.state.directory)
    access = read_access(LOOPBACK, None, None, None, [])
    serve(servers, (LOOPBACK, PORT), access, interval_s=1)


def _resume(cluster: LocalCluster) -> None:
    if all(cluster.is_running(node.name, "postgres") for node in cluster.state.nodes):
        raise PspError(
            f"cluster {cluster.state.name} is up already",
            "psp cluster status shows it, psp cluster down removes it, --name gives another one a name",
        )
    console.print(f"Starting cluster {cluster.state.name} again, with its data")
    cluster.resume()


def _adopt_with_schema(cluster: LocalCluster, schema: Path, add_keys: bool, drop_foreign_keys: bool) -> None:
    try:
        cluster.load_schema(schema)
        with _join_progress() as progress:
            growth.adopt(cluster, progress, add_keys, drop_foreign_keys, _schema_roles(cluster))
    except BaseException:
        cluster.down()
        raise


def _schema_roles(cluster: LocalCluster) -> tuple[str, ...]:
    """The roles that may change the schema of a local cluster: the owner of the tables, in native mode."""
    return (APP_ROLE,) if cluster.state.mode == "native" else ()


@contextmanager
def _join_progress() -> Iterator[growth.JoinProgress]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        tasks: dict[str, Any] = {}

        def show(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(f"{name}: rows copied", total=total)
            bars.update(tasks[name], completed=done, total=max(done, total))

        yield show


def _print_next_steps(cluster: LocalCluster) -> None:
    console.print(status.render(status.gather(cluster)))
    option = _cluster_option(cluster)
    if all(cluster.state.node(sp.name).adopted for sp in cluster.sps):
        console.print(f"\nUp. Connect to any SP:  psp cluster psql {cluster.sps[-1].name}{option}")
        return
    first = cluster.sps[0].name
    console.print(
        f"\nThe databases are empty and plain. Next:\n"
        f"  psp cluster psql {first}{option}    # make tables, load rows\n"
        f"  psp cluster adopt{option}       # put them under psp, at every SP"
    )


def _cluster_option(cluster: LocalCluster) -> str:
    """What must be added to a command so that it finds this cluster."""
    if cluster.state.directory == _directory("demo", None):
        return ""
    if cluster.state.directory == _directory(cluster.state.name, None):
        return f" --name {shlex.quote(cluster.state.name)}"
    return f" --dir {shlex.quote(str(cluster.state.directory))}"


@app.command()
def adopt(
    name: Name = "demo",
    directory: Dir = None,
    add_keys: AddKeys = False,
    drop_foreign_keys: DropForeignKeys = False,
) -> None:
    """Puts the first SP's database under psp as it is; the other SPs then join with a copy of it.

    [bold]Example[/]

        psp cluster up
        psp cluster psql sp1 -c 'CREATE TABLE t (id int PRIMARY KEY, v text)'
        psp cluster adopt
    """
    with _opened(name, directory, exclusive=True) as cluster, _join_progress() as progress:
        growth.adopt(cluster, progress, add_keys, drop_foreign_keys, _schema_roles(cluster))
    console.print("Every SP is under psp; applications may write at any of them.")


@app.command()
def join(
    sp_name: Annotated[str, typer.Argument(metavar="NAME", help="The new SP's name.")],
    zone: Annotated[str, typer.Option(help="Its zone, ZONE=ROUND_TRIP_MS.")] = "",
    postgres: Annotated[int, typer.Option(help="PostgreSQL's major version.", show_default="as found")] = 0,
    name: Name = "demo",
    directory: Dir = None,
) -> None:
    """Adds an SP to a running cluster: it copies the database from the primary while the others commit.

    [bold]Example[/]

        psp cluster join sydney --zone australia=280
    """
    with _opened(name, directory, exclusive=True) as cluster, _join_progress() as progress:
        place = _parse_zone(zone) if zone else Zone(sp_name)
        newcomer = Zone(sp_name, place.rtt_ms, place.name, postgres)
        sp = growth.join(cluster, newcomer, progress, schema_roles=_schema_roles(cluster))
    console.print(f"{sp.name} is up: {sp.dsn}")


@app.command("status")
def show_status(
    name: Name = "demo",
    directory: Dir = None,
    json: Json = False,
) -> None:
    """Shows for each SP: state, watermark, lag, commits and aborts per second, round trip to the primary.

    [bold]States[/]: streaming (all is well), joining, catchup, retrying, paused, disconnected, stopped,
    failed, as the daemon says; plain (not under psp yet), starting, daemon down, postgres down, link cut,
    silent (no report comes). `psp top` shows how a cluster is again and again.
    """
    with _opened(name, directory) as cluster:
        gathered = status.gather(cluster)
    if json:
        print_json(gathered)
    else:
        console.print(status.render(gathered))


@app.command("verify")
def run_verify(
    name: Name = "demo",
    directory: Dir = None,
    json: Json = False,
    timeout_s: Annotated[float, typer.Option(help="How long the streams may take to drain.")] = 60,
) -> None:
    """Compares the rows of all SPs and the primary by checksums, and the SPs' schemas; writers should pause.

    Ends with code 1 if anything differs. For servers elsewhere: psp primary verify.
    """
    with _opened(name, directory) as cluster:
        result = verify.verify(cluster, timeout_s)
    verify.show(result, json)


@app.command()
def down(
    name: Name = "demo",
    directory: Dir = None,
    keep_data: Annotated[bool, typer.Option("--keep-data", help="`up` starts it again as it was.")] = False,
) -> None:
    """Stops the cluster and removes it, data and all; cleans up after an interrupted `up`, too."""
    with _opened(name, directory, exclusive=True) as cluster:
        cluster.down(keep_data)
        console.print(f"Cluster {cluster.state.name} is {'stopped' if keep_data else 'removed'}.")


@app.command("stop-node")
def stop_node(
    node: Node,
    part: PartOption = None,
    crash: Annotated[
        bool, typer.Option("--crash", help="SIGKILL, and no checkpoint for PostgreSQL.")
    ] = False,
    name: Name = "demo",
    directory: Dir = None,
) -> None:
    """Stops a node, or only its daemon, its PostgreSQL, or its link to the primary (relay).

    [bold]Examples[/]

        psp cluster stop-node tokyo                    # all of it, gracefully
        psp cluster stop-node primary --part daemon --crash
        psp cluster stop-node tokyo --part relay       # cuts the link
    """
    with _opened(name, directory, exclusive=True) as cluster:
        cluster.state.node(node)
        for process in ("daemon", "relay"):
            if crash and part in (None, process) and cluster.is_running(node, process):
                cluster.kill(node, process)
        cluster.stop(node, part, "immediate" if crash else "fast")


@app.command("start-node")
def start_node(node: Node, part: PartOption = None, name: Name = "demo", directory: Dir = None) -> None:
    """Starts a stopped node again, or one part of it."""
    with _opened(name, directory, exclusive=True) as cluster:
        cluster.start(node, part)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def psql(
    context: typer.Context,
    node: Node,
    superuser: Annotated[bool, typer.Option("--superuser", help="As psp rather than as app.")] = False,
    name: Name = "demo",
    directory: Dir = None,
) -> None:
    """Opens psql at a node, as the application's role; what psp does not know is passed on to psql.

    [bold]Examples[/]

        psp cluster psql sp1
        psp cluster psql sp2 -c 'SELECT * FROM psp.status'
        psp cluster psql sp1 -U psp                    # the superuser
        psp cluster psql primary                       # its own database
    """
    with _opened(name, directory) as cluster:
        if node == PRIMARY:
            dsn = cluster.primary_dsn
        else:
            dsn = cluster.sp(node).admin_dsn if superuser else cluster.sp(node).dsn
        program = str(postgres_program("psql"))
        os.execve(program, [program, *context.args], {**os.environ, **_as_variables(dsn)})


def _as_variables(dsn: str) -> dict[str, str]:
    """A connection string as libpq's environment variables, so that psql's own options such as -U win."""
    names = {o.keyword.decode(): o.envvar.decode() for o in Conninfo.get_defaults() if o.envvar}
    return {
        names[keyword]: str(value) for keyword, value in conninfo_to_dict(dsn).items() if value is not None
    }
