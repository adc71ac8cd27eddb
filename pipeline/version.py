"""The version of this program; a test keeps it equal to pyproject.toml's."""

ATTRIBEAM_VERSION = "0.1.0"
