"""The servers and processes of `psp cluster` themselves."""
