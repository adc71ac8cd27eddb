"""The methods: what each says about the spans of an answer, one file per family."""
