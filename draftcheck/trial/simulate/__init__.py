"""Traces of one generation -> every way of speculating, by arithmetic alone."""
