"""Sample files that benchmarks and tests read."""
