"""A trial with vLLM."""
