"""Datasets, metrics and baselines: how attribution methods are compared."""
