"""Reads of bytes, and the sockets that measure the link itself."""
