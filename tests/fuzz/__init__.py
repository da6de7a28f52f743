"""Attackers: every surface that takes input from outside, with seeded random damage.

A surface (surfaces.py) makes cases: files in a folder of their own and command lines over them. A
case is determined by the surface, the seed and its number, so each can be run again alone. The
harness (harness.py) runs the command lines in this process under limits and holds them against
what must always be true: exit 0, 1, 2, 3 or 130; no traceback; bounded CPU time and memory; no
file changed that was not asked for; nothing executed; no control character in the output.

    python -m tests.fuzz --cases 200                 each surface, 200 cases, a fresh seed
    python -m tests.fuzz --minutes 10 deploy store   two surfaces for ten minutes
    python -m tests.fuzz deploy --seed 7 --case 123  that case again, with what it did
"""
