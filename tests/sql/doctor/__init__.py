"""psp doctor: its rules, and what it reads."""
