"""Views mode: tables are views over T_persistent and T_temp (thesis, 3.4.1; sql/views/README.md)."""
