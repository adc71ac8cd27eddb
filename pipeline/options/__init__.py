"""What a user may set: declared options, configuration files, devices, hints and options of runners."""
