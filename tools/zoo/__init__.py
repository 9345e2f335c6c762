"""Networks that tests and benchmarks run."""
