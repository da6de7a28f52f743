"""The target behind a server that runs already; only the draft is loaded here."""
