"""A Hub on loopback for tests: real HTTP, two origins, faults on order, every byte counted.

with Hub() as hub:
    hub.add_repo("org/small", {"config.json": b"{}", "model.safetensors": Virtual(head, size)})
    hub.fault("cut", file="org/small/model.safetensors", after=1000, how="rst")
    ...  # point a client at hub.url (HF_ENDPOINT), or take hub.env(folder) for a subprocess
    assert hub.requests <= 4 and hub.bytes < 20_000 and not hub.leaks
"""

from __future__ import annotations

from tests.hub.blobs import LFS, Plain, Virtual
from tests.hub.faults import Fault
from tests.hub.hub import Hub
from tests.hub.log import Entry
from tests.hub.repos import Repo

__all__ = ["LFS", "Entry", "Fault", "Hub", "Plain", "Repo", "Virtual"]
