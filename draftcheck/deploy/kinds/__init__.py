"""How each kind of deploy file is read; choose.py knows them all and says which reads a file.

shell.py also takes sudo, env, docker run … off the commands that all kinds hold.
"""
