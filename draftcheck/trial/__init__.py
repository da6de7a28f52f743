"""The trial: one generation by the target, one reading by the draft, and every answer from that.

api.py      trial(...): wishes -> a plan -> the result
measure.py  the run itself
backends/   what runs the models; a new one goes there (backends/backend.py says how)
simulate/   traces -> every way of speculating, by arithmetic alone; a new way goes there
speedup.py  tokens per pass and the cost of steps -> speed-up, wherever costs are known from
result.py   the result and its JSON, written and read back
"""
