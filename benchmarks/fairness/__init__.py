"""What far semi-primaries get of rows that near ones write, too: `make bench-fairness`."""
