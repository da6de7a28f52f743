"""The Hugging Face Hub: listings, ranged reads with budgets and digests, the cache."""
