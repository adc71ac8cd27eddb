"""What in an answer is a claim, and the verdict on each claim."""
