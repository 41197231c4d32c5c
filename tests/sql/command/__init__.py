"""The psp command: errors, installation, the primary's schema and its members."""
