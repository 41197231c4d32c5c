"""What COMMIT does and says."""
