"""draftcheck probe: ask a running server whether it is speculating now, and how well."""
