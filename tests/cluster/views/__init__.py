"""Views mode by its messages and options."""
