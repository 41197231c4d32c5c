"""Real PostgreSQL servers, daemons and clients, which are started, killed and cut off."""
