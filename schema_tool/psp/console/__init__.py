"""`psp console`: one page that shows a cluster live, served by this process. It only reads."""
