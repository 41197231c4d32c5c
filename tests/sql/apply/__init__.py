"""The SQL of the apply worker: blockers, sequences."""
