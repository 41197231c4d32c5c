"""psp's client libraries where there is no daemon."""
