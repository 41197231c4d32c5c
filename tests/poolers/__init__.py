"""Connection poolers between applications and semi-primaries."""
