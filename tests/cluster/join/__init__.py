"""A semi-primary joins a running cluster."""
