"""`make bench-overhead`: what psp costs where there is no distance to win against."""
