"""The subcommands of the command line that this room answers."""
