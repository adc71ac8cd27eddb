"""The methods under comparison, each family in a file of its own."""
