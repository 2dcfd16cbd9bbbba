"""Vector reads."""
