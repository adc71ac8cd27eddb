"""Take attention and hidden states out of a model, and reduce them to token-wise attributions."""
