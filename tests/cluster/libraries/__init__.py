"""psp's client libraries."""
