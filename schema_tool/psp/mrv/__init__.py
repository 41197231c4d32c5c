"""Multi-Record Values: numeric columns whose values are split over many records (sql/mrv/README.md)."""
