"""Both models in this process, by transformers."""
