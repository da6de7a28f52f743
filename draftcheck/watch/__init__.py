"""Which rules a release of an engine confirms, and which rest on code that changed."""
