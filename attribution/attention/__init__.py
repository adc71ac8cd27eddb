"""Attention and hidden states out of a model, reduced to token-wise attributions."""
