"""draftcheck why: an engine's log -> what its messages mean, and what to do next."""
