"""The SQL of a semi-primary and the psp command, on one PostgreSQL, without daemons."""
