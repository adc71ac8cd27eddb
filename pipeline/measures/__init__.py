"""What an audit comes to: sums over its evidence, metrics, quality gates, and where they are sent."""
