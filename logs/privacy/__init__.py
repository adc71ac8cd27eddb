"""What of a log may be written: the parts of its texts to mask, or no texts at all."""
