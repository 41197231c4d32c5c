"""Random statements on two semi-primaries and a plain PostgreSQL, which must agree."""
