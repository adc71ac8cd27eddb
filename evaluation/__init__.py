"""Comparing attribution methods: data sets, measures and the paper's tables."""
