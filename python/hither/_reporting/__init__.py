"""Counters and timings of reads, as text, pictures and progress bars."""
