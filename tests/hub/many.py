"""A Hub of a million repos that nobody added: rows of its list are made up when they are asked for.

Of three repos that it lists one is for text-generation; the others cost whoever forgets to ask
for that tag. Rows come by date, the last change first. Most are no candidates for any small
target: adapters, cards without weights, GGUF files, models that are too large. One in
`candidate_every` looks like a candidate until its files are asked for: then it has the vocabulary
of STRANGER, a repo that somebody has to add.
"""

from __future__ import annotations

import json
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.hub import api
from tests.hub.answers import Answer, as_json
from tests.hub.blobs import Data
from tests.hub.hub import Hub
from tests.hub.requests import Request

TASK = "text-generation"
STRANGER = "other/small"
FIRST, LATER = datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)
"""When the newest made-up repo was changed: at first, and after change()."""
NEWS = 100
"""change() gives one repo in so many a new commit."""
ADAPTER = ("adapter_config.json", "adapter_model.safetensors", "README.md", "training_args.bin")
MODEL = (
    "config.json", "generation_config.json", "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors", "model.safetensors.index.json", "README.md",
)  # fmt: skip
VOCABULARY = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "merges.txt")
QUANTS = ("Q2_K", "Q3_K_M", "Q4_0", "Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "F16")
KINDS = (
    (25, ADAPTER, 0, "peft"),
    (40, (), 0, "transformers"),
    (60, tuple(f"model-{quant}.gguf" for quant in QUANTS), 0, "gguf"),
    (90, (*MODEL, *VOCABULARY), 70_000_000_000, "transformers"),
    (100, MODEL, 7_000_000_000, "transformers"),
)
"""Up to which hundredth, which files, parameters, library."""


class ManyRepos(Hub):
    """count: repos for text-generation, a multiple of NEWS; besides those that were added."""

    def __init__(self, count: int, candidate_every: int = 0) -> None:
        super().__init__()
        assert count % NEWS == 0
        self.count, self.candidate_every = count, candidate_every
        self.changed = False
        self.quotas.set(300.0, api=10**9, resolvers=10**9)

    def change(self) -> None:
        """One repo in a hundred gets a new commit."""
        self.changed = True

    def own_answer(self, request: Request) -> Answer | None:
        parts = request.segments
        if parts == ["api", "models"]:
            return self._page(request)
        name = "/".join(parts[2:4])
        return self._files(name) if parts[0] == "api" and name.startswith("user-") else None

    def _page(self, request: Request) -> Answer:
        whole = self.count * (1 if TASK in request.entry.arguments.get("filter", []) else 3)
        news = whole // NEWS if self.changed else 0
        added = sorted(self.repos.values(), key=lambda repo: repo.last_modified, reverse=True)
        end = len(added) + whole
        size = min(int(request.argument("limit") or 1000), self.list_page)
        at = int(request.argument("cursor") or "0", 16)
        rows = []
        for place in range(at, min(at + size, end)):
            if place < news:
                rows.append(self._row(place * NEWS + NEWS // 2, place, new=True))
            elif place < news + len(added):
                repo = added[place - news]
                about = api.fields(repo, repo.commits[repo.sha], blobs=False)
                rows.append(json.dumps({"_id": "0" * 24, **about}))
            else:
                number = _unchanged(place - len(added) - news) if news else place - len(added)
                rows.append(self._row(number, number, new=False))
        answer = Answer(200, {"Content-Type": "application/json"})
        answer.body = Data(f"[{','.join(rows)}]".encode())
        if at + size < end:
            kept = "&".join(p for p in request.entry.query.split("&") if not p.startswith("cursor"))
            link = f"{self.url}/api/models?{kept}&cursor={at + size:x}"
            answer.headers["Link"] = f'<{link}>; rel="next"'
        return answer

    def _row(self, number: int, age: int, *, new: bool) -> str:
        chance = zlib.crc32(b"%d" % number)
        date = LATER - timedelta(seconds=age) if new else FIRST - timedelta(minutes=age)
        task = TASK if number < self.count else "text-to-image"
        if self._candidate(number):
            files, size, library = (*MODEL, *VOCABULARY), 100_000, "transformers"
        else:
            files, size, library = next(entry[1:] for entry in KINDS if chance % 100 < entry[0])
        base = f"base_model:finetune:org-{chance % 97}/some-model-{chance % 7}B-instruct"
        tags = f'"{library}","{task}","en","license:apache-2.0","region:us","{base}"'
        tensors = f'{{"parameters":{{"BF16":{size}}},"total":{size}}}'
        names = ",".join(f'{{"rfilename":"{name}"}}' for name in (".gitattributes", *files))
        return (
            f'{{"_id":"{number:024x}","id":"{_name(number)}","sha":"{self._sha(number, new)}",'
            f'"lastModified":"{date.isoformat(timespec="milliseconds")[:23]}Z","gated":false,'
            f'"disabled":false,"downloads":{chance % 5000},"likes":{chance % 50},'
            f'"pipeline_tag":"{task}","tags":[{tags}],'
            + (f'"safetensors":{tensors},' if size else "")
            + f'"siblings":[{names}]}}'
        )

    def _candidate(self, number: int) -> bool:
        return bool(self.candidate_every) and number % self.candidate_every == 0

    def _sha(self, number: int, new: bool) -> str:
        return f"{number:032x}{'beef' if new else 'cafe'}0000"

    def _files(self, name: str) -> Answer:
        number = int(name.rpartition("-")[2])
        new = self.changed and number % NEWS == NEWS // 2
        vocabulary = self.repos[STRANGER].files["tokenizer.json"]
        rows: list[dict[str, Any]] = [
            {"rfilename": file, "size": 500, "blobId": f"{zlib.crc32(file.encode()):040x}"}
            for file in (*MODEL, *VOCABULARY)
            if file != "tokenizer.json"
        ]
        rows.append(
            {"rfilename": "tokenizer.json", "size": vocabulary.size, "blobId": vocabulary.oid}
        )
        return as_json({"id": name, "sha": self._sha(number, new), "siblings": rows})


def _name(number: int) -> str:
    return f"user-{number * 7919 % 100_003:06d}/some-model-7B-instruct-lora-{number}"


def _unchanged(place: int) -> int:
    """The number of the repo at this place among those without a new commit."""
    block, rest = divmod(place, NEWS - 1)
    return block * NEWS + rest + (rest >= NEWS // 2)
