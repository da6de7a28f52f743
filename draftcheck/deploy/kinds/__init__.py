"""One module per kind of deploy file; choose.py knows them all and says which reads a file.

wrappers.py and containers.py are no kinds: they read what several kinds hold.
"""
