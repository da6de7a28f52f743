"""Bytes -> facts: one module per file that a model's folder holds."""
