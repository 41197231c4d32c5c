"""Adoption in native mode: its checks, what it leaves, release, dumps."""
