"""Views mode without a daemon."""
