"""Watching a cluster: what its servers tell is gathered, made one view, judged, and shown by `psp top`."""
