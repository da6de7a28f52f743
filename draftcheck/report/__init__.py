"""Renderers: they print what was decided, and decide nothing."""
