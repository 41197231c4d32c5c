"""One transaction's way through a cluster, read from the logs of its daemons; `psp trace`."""
