"""The version of the input and output formats; a change that breaks a reader raises the first number."""

SCHEMA_VERSION = "1.2"
