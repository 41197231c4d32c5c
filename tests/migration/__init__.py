"""A migration of 24 steps under TPC-C at three distant SPs, while daemons and servers are killed."""
