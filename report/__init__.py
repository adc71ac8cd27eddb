"""What an audit found, for people and monitors: rows, one answer, a page. Imports schemas and logs only."""
