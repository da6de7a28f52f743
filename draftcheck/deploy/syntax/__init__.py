"""The languages that deploy files are written in, with the place of every piece."""
