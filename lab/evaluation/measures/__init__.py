"""What is measured of a method, and the commands that measure it."""
