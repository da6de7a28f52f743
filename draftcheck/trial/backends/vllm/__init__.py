"""Both models in engines of vLLM."""
