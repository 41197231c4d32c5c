"""`make bench-apply`: what a semi-primary's applying of another one's TPC-C costs, and its reading of W."""
