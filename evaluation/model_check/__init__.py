"""Choosing a model: what one is and does, how well each method finds passages with it, and what fits a machine."""
