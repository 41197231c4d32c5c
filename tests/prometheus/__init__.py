"""A real Prometheus beside a cluster (`make test-prometheus`)."""
