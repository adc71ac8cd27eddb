"""Fitting weights of attention heads."""
