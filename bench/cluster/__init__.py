"""Clusters of processes that stand for machines, and of namespaces that are them."""
