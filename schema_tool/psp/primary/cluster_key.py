"""The secret of a cluster's daemons (their setting key_file); common/cluster_key.h says what it is for."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from psp.output import PspError

KEY_BYTES = 32


def write_cluster_key(path: Path) -> None:
    """Draws a key and writes it to a new file that only its owner can read. Never overwrites one."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise PspError(
            f"{path} exists; a cluster's key must not be lost", "Choose another name, or remove it first."
        ) from None
    except OSError as error:
        raise PspError(f"{path}: {error.strerror}") from None
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(KEY_BYTES) + "\n")
