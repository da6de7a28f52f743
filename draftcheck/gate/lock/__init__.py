"""draftcheck.lock: what the gate must know of models, kept beside the deploy files that name them.

format.py is the file: its entries, their digests, reading and writing it. refresh.py makes the
file: it looks for models in deploy files, reads those that are new or changed, and keeps the rest.
"""
