"""The audit job: options, the graph, chunks, manifests and the command line."""
