"""What roles may do with psp, and what they cannot reach."""
