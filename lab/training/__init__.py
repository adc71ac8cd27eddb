"""Recipes that train the bundled models and fit head weights, one package each."""
