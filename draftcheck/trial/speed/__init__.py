"""Tokens per pass and seconds per step -> speed-up."""
