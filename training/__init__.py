"""Recipes that train the models bundled with the project, one module for each."""
