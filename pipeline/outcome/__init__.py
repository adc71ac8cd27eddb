"""What a run leaves behind and says: its record and its summary."""
