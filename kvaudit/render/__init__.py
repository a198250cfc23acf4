"""A value to text, Markdown, JSON, SARIF, GitHub annotations or JUnit. Returns strings; prints nothing."""
