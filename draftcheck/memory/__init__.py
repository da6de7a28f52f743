"""Bytes on GPUs: weights, caches, and what the engine takes for itself."""
