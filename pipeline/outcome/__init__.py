"""What a run leaves behind and says: its record, its summary, a notice, and what is kept of older runs."""
