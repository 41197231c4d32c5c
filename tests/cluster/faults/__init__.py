"""Daemons, servers and links that fail; input that is wrong."""
