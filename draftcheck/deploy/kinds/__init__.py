"""How each kind of deploy file is read; choose.py knows them all and says which reads a file.

wrappers.py is no kind: it takes sudo, env, docker run … off the commands that all kinds hold.
"""
