"""The only reader of rules/: files -> typed, checked rows."""
