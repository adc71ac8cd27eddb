"""The paper's suite: every table that the available data and models allow, resumable cell by cell."""
