"""TPC-C on a plain database and with its hot columns as Multi-Record Values: `make bench-mrv-tpcc`."""
