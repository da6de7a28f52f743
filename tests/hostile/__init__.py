"""Files that a stranger could put into a model repo: each must end in a verdict or one error."""
