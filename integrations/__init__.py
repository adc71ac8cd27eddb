"""What other products get of an audit, and what they ask of attribeam; each part needs an extra."""
