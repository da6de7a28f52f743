"""For publishers of drafts and heads: what is wrong with a repository before others find out."""
