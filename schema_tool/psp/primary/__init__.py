"""The primary's database, which is the registry of a cluster: made, upgraded, read and written."""
