"""What steps cost and what speculation is worth by that. Plain numbers: no torch, no numpy."""
