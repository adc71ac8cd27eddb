"""The paper's suite: every table that the data and the models at hand allow, resumable cell by cell."""
