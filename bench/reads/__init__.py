"""Reads of files over a link, beside peers."""
