"""psp doctor of a running cluster."""
