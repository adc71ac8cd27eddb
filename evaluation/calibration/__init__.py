"""``attribeam calibrate``: fits the thresholds of verdicts to what people marked in an audit."""
