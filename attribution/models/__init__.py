"""Find, choose, load and check models, and estimate the memory that they need."""
