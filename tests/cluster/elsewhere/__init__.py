"""A semi-primary's daemon on another host than its PostgreSQL server."""
