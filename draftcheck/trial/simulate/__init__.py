"""Traces of one generation -> every way of speculating, by arithmetic alone.

Nothing here knows a backend. A new way of speculating, such as a head with drafts of its own, is a
function from traces to passes.Drafts, counted by passes.walk and named in answers.py.
"""
