"""Multi-Record Values: the stock microbenchmark, and the simulation of how many records a load needs."""
