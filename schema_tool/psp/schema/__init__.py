"""Puts a live database under psp and takes it out again; reads and checks its catalog."""
