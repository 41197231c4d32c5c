"""The loops of docs/retrying.md, as they stand there."""
