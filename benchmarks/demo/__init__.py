"""`make demo`: TPC-C in three zones, on one far PostgreSQL and on psp."""
