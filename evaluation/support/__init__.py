"""How far the support flag can be trusted, measured on answers that people judged."""
