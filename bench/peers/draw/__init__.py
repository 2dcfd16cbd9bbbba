"""The talk's query."""
