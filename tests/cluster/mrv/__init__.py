"""Multi-Record Values in a cluster."""
