"""The unit of work: which rows, where its files stand, what was committed, and that it reconciles."""
