"""Reads of columns."""
