"""Tables and files of figures."""
