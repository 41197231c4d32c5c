"""The stock microbenchmark on three semi-primaries far from one another: `make bench-mrv-geo`."""
