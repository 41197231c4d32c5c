"""Local clusters on throw-away PostgreSQL servers: for trying, for tests, for benchmarks."""
