"""Training the bundled attributor."""
