"""psp: the command that puts databases under psp and runs local clusters."""

__version__ = "0.1.0"
