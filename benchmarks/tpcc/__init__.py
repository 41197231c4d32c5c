"""TPC-C for sysbench (Lua), the check of its consistency conditions, and how Python runs both."""
