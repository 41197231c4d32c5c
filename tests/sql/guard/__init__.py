"""Schema changes that an adopted database refuses or repairs."""
