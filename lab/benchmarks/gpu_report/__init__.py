"""Everything that remains to be measured on a GPU, in one command and one report."""
