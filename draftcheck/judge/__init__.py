"""Facts x rules -> verdict: compare, choose a method, check, decide, find ways out."""
