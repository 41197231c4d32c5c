"""What the other semi-primaries do with a committed transaction."""
