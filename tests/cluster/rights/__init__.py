"""Security: tables' owners, and the cluster's key."""
