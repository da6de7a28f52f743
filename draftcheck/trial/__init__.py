"""The trial: one generation by the target, one reading by the draft, and every answer from that."""
