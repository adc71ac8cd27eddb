"""The parts of the report; each runs in a process of its own."""
