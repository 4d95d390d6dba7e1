"""Benchmarks: a ratio between two programs measured in turn, never a bare time."""
