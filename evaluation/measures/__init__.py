"""The measures of a method, and the commands that compute them."""
