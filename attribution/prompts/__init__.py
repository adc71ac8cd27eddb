"""From texts to tokens and back: prompt templates, rows, windows of long rows."""
