"""Hostile clients: what one of them does must not hold up the others."""
