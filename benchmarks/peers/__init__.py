"""TPC-C on psp, on MariaDB with Galera and on one distant PostgreSQL: `make bench-peers`."""
