"""A static site of everything a scan knows: pages, a matrix, JSON and CSV."""
