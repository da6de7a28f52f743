"""Ctrl-C ends the writing, not the engines: the draft has yet to read what was written by then.

A terminal sends SIGINT to every process of the program, and engines end by it. What is started
here has the signal blocked, which it inherits whatever handlers it sets; SIGTERM still ends it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread


@contextmanager
def kept_from_children() -> Iterator[None]:
    """Processes that are started inside do not get Ctrl-C; this one does."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    over = Event()
    # A thread takes the signal meanwhile: Python then interrupts the main one all the same.
    listener = Thread(target=over.wait, daemon=True)
    listener.start()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        over.set()
