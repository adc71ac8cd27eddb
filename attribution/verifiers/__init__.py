"""Verifiers: models of the hub, or of a directory, that say how far passages support the claims of an answer."""
