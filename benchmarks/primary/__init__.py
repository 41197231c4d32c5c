"""`make bench-primary`: what the primary costs, beside a raw upsert of the same rows and under TPC-C."""
