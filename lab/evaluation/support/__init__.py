"""Does the support flag mean something? Rows, figures and reports of that question."""
