"""Data folders of servers as copies of one: much cheaper than initdb (docs/decisions/63).

PostgreSQL's own tests do the same (INITDB_TEMPLATE). A copy gets a system identifier of its own, by which psp
knows servers.
"""

import atexit
import secrets
import struct
import subprocess
import threading
from pathlib import Path

from psp.paths import postgres_program
from psp.servers.pgserver import PgServer, give_to_server
from psp.servers.temporary import TemporaryFolder

CASTAGNOLI = 0x82F63B78  # the polynomial of PostgreSQL's checksums, reflected
START = 0xFFFFFFFF  # of a checksum
SYSTEM_IN_WAL = 24  # XLogLongPageHeaderData, at the begin of each segment: behind XLogPageHeaderData


class CopiedServers:
    """Makes data folders. initdb makes the original of each PostgreSQL; it lives as long as the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folder: TemporaryFolder | None = None
        self._made: dict[Path, PgServer] = {}

    def make_data(self, server: PgServer) -> None:
        """Any thread. The copy has the rights and owners of what initdb made."""
        with self._lock:
            original = self._original(server.version)
        subprocess.run(["cp", "-a", "--", str(original.data_dir), str(server.data_dir)], check=True)
        give_system_identifier(server.data_dir, secrets.randbits(63))

    def _original(self, version: int) -> PgServer:
        program = postgres_program("initdb", exactly=version)
        if program not in self._made:
            if self._folder is None:
                self._folder = TemporaryFolder()
                give_to_server(self._folder.path)
                atexit.register(self._folder.remove)
            server = PgServer(self._folder.path / str(len(self._made)), 0, self._folder.path, version=version)
            server.folder.mkdir()
            give_to_server(server.folder)
            server.init()
            self._made[program] = server
        return self._made[program]


def give_system_identifier(data: Path, identifier: int) -> None:
    """Of a data folder that initdb has made, whose server has not started yet."""
    number = struct.pack("=Q", identifier)
    control = data / "global" / "pg_control"
    content = bytearray(control.read_bytes())
    end = _checksum_place(content)
    content[:8] = number  # ControlFileData begins with it
    content[end : end + 4] = struct.pack("=I", crc32c(content[:end]))
    control.write_bytes(content)
    (segment,) = (path for path in (data / "pg_wal").iterdir() if path.is_file())
    with segment.open("r+b") as wal:
        wal.seek(SYSTEM_IN_WAL)
        wal.write(number)


def _checksum_place(content: bytes | bytearray) -> int:
    """Where ControlFileData ends with its checksum: the place differs between versions."""
    crc = START
    for end in range(0, 512, 4):
        if end >= 8 and struct.unpack_from("=I", content, end)[0] == crc ^ START:
            return end
        crc = _continue(crc, content[end : end + 4])
    raise AssertionError("pg_control has no checksum")


def crc32c(data: bytes | bytearray) -> int:
    return _continue(START, data) ^ START


def _continue(crc: int, data: bytes | bytearray) -> int:
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (CASTAGNOLI if crc & 1 else 0)
    return crc
