"""The primary on three nodes with Patroni and etcd: what is killed, stopped or comes back loses nothing."""
