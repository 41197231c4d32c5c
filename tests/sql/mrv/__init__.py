"""Multi-Record Values on a plain PostgreSQL."""
