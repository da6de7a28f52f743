"""The frozen values that travel between layers. Standard library only, no I/O, no opinions."""
