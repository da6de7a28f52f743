"""One module per kind of server: how it is recognised, what it tells, how it is asked."""
