"""draftcheck recommend: drafts for a target, from the Hub or from this disk, ranked."""
