"""Foreign keys between distant semi-primaries, under a storm and faults."""
