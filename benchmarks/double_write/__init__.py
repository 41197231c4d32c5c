"""`make bench-double_write`: the least that views mode's way of writing can cost."""
