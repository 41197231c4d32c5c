"""The migrations of real applications, from the first to the last, at one SP while others are written."""
