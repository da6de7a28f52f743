"""Engines' options by version: what a command line or a document means to its engine."""
