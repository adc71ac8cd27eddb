"""From token-wise attributions to the evidence, the passage and the support of a span."""
