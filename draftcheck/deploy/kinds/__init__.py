"""One module per kind of deploy file; choose.py knows them all."""
