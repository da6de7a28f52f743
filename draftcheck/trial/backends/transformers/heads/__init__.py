"""Heads measured by readings: readings.py has the algorithm, a module each a family of heads."""
