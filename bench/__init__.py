"""Benchmarks: hither beside its peers, over emulated links; README.md lists them all."""
