"""Servers of tests do not wait for the disk: they are killed, and what a killed process wrote is not lost."""

from psp.servers import pgserver

pgserver.overrides["fsync"] = "off"
