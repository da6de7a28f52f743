"""Places in engines' code that rules rest on: found, digested and compared, never run."""
