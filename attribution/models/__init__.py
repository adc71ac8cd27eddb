"""Finding, choosing and loading a model; what of it is read, and what it needs."""
