"""What others measured and what publishers pair: rows of rules/evidence, always with a source."""
