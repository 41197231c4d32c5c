"""Throw-away PostgreSQL servers and other processes on this machine: their folders, ports and marks."""
