"""Servers of tests do not wait for the disk: they are killed, and what a killed process wrote is not lost.

Their data folders are copies.
"""

from psp.servers import pgserver

from tests.copied_servers import CopiedServers

pgserver.overrides["fsync"] = "off"
pgserver.make_data = CopiedServers().make_data
