"""The methods: what each says about the spans of an answer, a family a file."""
