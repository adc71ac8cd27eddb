"""The answer: its parse, its atomic facts, its target spans and the values in them."""
