"""Training of the bundled attributor."""
