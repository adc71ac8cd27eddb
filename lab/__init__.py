"""The laboratory: evaluation, training and benchmarks."""
