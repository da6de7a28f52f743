"""Weight files: which there are, what their headers list, whether they are sound."""
