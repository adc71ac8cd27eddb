"""How attribution methods are compared: data sets, measures, and the paper's tables."""
