"""What a transaction's write-set holds at COMMIT."""
