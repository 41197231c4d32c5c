"""What no folder can test alone. Run from the repository's root: `python -m pytest tests/sql`."""
