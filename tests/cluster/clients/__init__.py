"""Programs that do not know psp: drivers, load generators, the SQL that applications write."""
