"""The Python package, beside uproot and ROOT."""
