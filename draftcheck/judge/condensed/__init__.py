"""Facts in a few kilobytes, from which every verdict can still be worked out.

For the gate's lock and the scan's store: digests and fingerprints instead of vocabularies, tensor
names folded by pattern (facts.py). What only both vocabularies together tell is kept per pair, as
notes (pairs.py). It belongs to the judge because it keeps exactly what checks look at; facts in
full are written by models/stored.py.
"""
