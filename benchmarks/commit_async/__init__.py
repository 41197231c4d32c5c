"""`make bench-commit_async`: one connection, many transactions in flight over a far link."""
