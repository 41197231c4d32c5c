"""Multi-Record Values: the thesis's simulation of how many records a load needs."""
