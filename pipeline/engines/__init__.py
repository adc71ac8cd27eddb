"""What a distributed engine needs besides the graph: groups of chunks that are committed inside it."""
