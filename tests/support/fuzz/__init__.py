"""Mutated inputs, run in child processes: see tests/fuzz/README.md."""
