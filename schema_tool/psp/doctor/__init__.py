"""`psp doctor`: looks at all servers of a cluster for what an operator should know before it hurts."""
