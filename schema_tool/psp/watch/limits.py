"""From where on something is worth a word."""

HOT_LOSSES = 10
"""In a minute. A key that is lost less often is shown, and needs nothing."""
LAG_MS_MAX = 5000
