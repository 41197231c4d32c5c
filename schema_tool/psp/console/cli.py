"""`psp console`: where the page is served, and who may see it."""

from __future__ import annotations

import ipaddress
import secrets
import threading
from pathlib import Path
from typing import Annotated

import typer

from psp.console.server import USER, Access, Server
from psp.console.stream import Feed
from psp.output import PspError, console
from psp.problems import errors_shown
from psp.watch import gather
from psp.watch.cli import Dir, Dsns, Name, sources

PORT = 8642
LOOPBACK = "127.0.0.1"


def serve(
    servers: list[gather.Source], server_address: tuple[str, int], access: Access, interval_s: float
) -> None:
    """Until Ctrl-C. `access` has no hosts yet; they follow from the port that is taken."""
    feed = Feed(lambda: gather.look(servers), interval_s)
    server = open_server(server_address, feed, access)
    looks = threading.Thread(target=feed.run, daemon=True)
    looks.start()
    host, port = shown_host(server_address[0]), server.server_address[1]
    scheme, secret = ("https", "") if access.tls else ("http", f"#{access.token}" if access.token else "")
    console.print(f"psp console: {scheme}://{host}:{port}/{secret}", markup=False)
    if access.password is not None:
        console.print(f"User {USER}, and the password of the file. Ctrl-C ends it.")
    else:
        console.print("Who has this address sees what the connection's role may see. Ctrl-C ends it.")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        feed.end()
        server.server_close()


def open_server(address: tuple[str, int], feed: Feed, access: Access) -> Server:
    """Bound, and knows the names by which it may be asked."""
    server = Server(address, feed)
    port = server.server_address[1]
    names = {shown_host(address[0]), *access.hosts}
    if is_loopback(address[0]):
        names |= {"localhost", "127.0.0.1", "[::1]"}
    hosts = {f"{name.lower()}:{port}" for name in names}
    if port == (443 if access.tls else 80):  # browsers leave it out then
        hosts |= {name.lower() for name in names}
    server.admit(Access(frozenset(hosts), access.token, access.password, access.tls))
    return server


def shown_host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        raise PspError(f"--listen {address}: not an address", "for example: --listen 127.0.0.1") from None


def read_access(
    listen: str, password_file: Path | None, certificate: Path | None, key: Path | None, names: list[str]
) -> Access:
    """PspError: data would go over a network to everybody, or in the clear."""
    if (certificate is None) != (key is None):
        raise PspError("--certificate and --key belong together")
    tls = (certificate, key) if certificate and key else None
    if not is_loopback(listen) and (password_file is None or tls is None):
        raise PspError(
            f"--listen {listen} is no loopback address",
            "give --password-file, --certificate and --key, or an SSH tunnel to a console on loopback",
        )
    if ipaddress.ip_address(listen).is_unspecified and not names:
        raise PspError(
            f"--listen {listen} is no name by which a browser can ask",
            "give --host-name for each name or address that people type",
        )
    hosts = frozenset(names)
    if password_file is None:
        return Access(hosts, token=secrets.token_urlsafe(24), tls=tls)
    if password_file.stat().st_mode & 0o077:
        raise PspError(f"{password_file} is open to others", f"chmod 600 {password_file}")
    password = password_file.read_text(encoding="utf-8").strip()
    if len(password) < 8:
        raise PspError(f"{password_file}: the password has less than eight characters")
    return Access(hosts, password=password, tls=tls)


def show_console(
    dsns: Dsns = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = PORT,
    listen: Annotated[str, typer.Option(help="The address to listen at.")] = LOOPBACK,
    password_file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Its first line is the password.")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="TLS: the certificate's file (PEM).")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="TLS: its key's file.")
    ] = None,
    host_name: Annotated[
        list[str] | None,
        typer.Option(
            help="A name by which browsers may ask for it, any number of times; 0.0.0.0 and :: need one."
        ),
    ] = None,
    interval: Annotated[float, typer.Option(min=0.2, max=10, help="Seconds between two looks.")] = 1,
    name: Name = "demo",
    directory: Dir = None,
) -> None:
    """Serves one page that shows live what `psp top` shows, until Ctrl-C. It only reads.

    It listens on this machine only. Elsewhere it needs a password and TLS, and --listen 0.0.0.0 also the
    names by which browsers ask: --host-name.

    [bold]Examples[/]

        psp console                              # the cluster of psp cluster up
        psp console "host=primary dbname=psp" "host=db dbname=shop"
    """
    with errors_shown():
        access = read_access(listen, password_file, certificate, key, host_name or [])
        serve(sources(dsns, name, directory), (listen, port), access, interval)
