"""One row that far semi-primaries update without a pause: `make bench-fairness`."""
