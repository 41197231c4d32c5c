"""Native mode: triggers capture what the tables' writers do, and a hook at COMMIT sends it."""
