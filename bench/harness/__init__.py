"""Parts that benchmarks share: links, servers, contenders, rounds, tables and plots."""
