"""Loads and measurements. Run from the repository's root, for example `python -m benchmarks.demo`."""
