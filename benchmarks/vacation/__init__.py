"""STAMP Vacation, a travel agency's reservations, on plain tables and on Multi-Record Values."""
