"""`make bench-once`: what a request that is served once costs, beside the same transaction without it."""
