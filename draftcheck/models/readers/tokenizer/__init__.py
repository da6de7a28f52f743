"""Tokenizer files of every format -> token texts by id."""
