"""How long an engine takes for a pass, without running it."""
