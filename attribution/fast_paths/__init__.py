"""Fast paths that rely on private parts of libraries; each is behind a check and has a plain alternative."""
