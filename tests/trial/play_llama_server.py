"""A program that plays llama-server with toy models: python play_llama_server.py BUILD ARGUMENTS…

The target's next token follows from the last two; the draft knows three of four of them. A pass
takes PASS milliseconds, and each drafted token DRAFTED more; a prompt READ, by who reads it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

SIZE, CONTEXT = 60, 4096
PASS, DRAFTED = 3.0, 0.5
READ = {"target": 2.0, "draft": 0.2}
HELP = {
    "old": "-c,    --ctx-size N   size\n--draft-max, --draft, --draft-n N  tokens\n"
    "--draft-min, --draft-n-min N  fewest\n--draft-p-min P  p\n-md,   --model-draft FNAME  draft\n",
    "new": "--spec-draft-n-max N  tokens\n--spec-draft-n-min N  fewest\n"
    "--spec-draft-p-min, --draft-p-min P  p\n--spec-draft-model, -md, --model-draft FNAME  draft\n"
    "--spec-type none,draft-simple,draft-eagle3,draft-mtp,ngram-mod   types\n"
    "--draft, --draft-n, --draft-max N  the argument has been removed. use --spec-draft-n-max\n",
}


def target(ids: list[int]) -> int:
    return (ids[-1] * 31 + ids[-2] * 17 + 7) % (SIZE - 1)


def draft(ids: list[int]) -> int:
    right = target(ids)
    return right if (ids[-1] + ids[-2]) % 4 else (right + 1) % (SIZE - 1)


class Toy:
    """What one command line asked for."""

    def __init__(self, build: str, arguments: list[str]) -> None:
        self.given = dict(pairwise(arguments))
        names = {"old": "--draft-max", "new": "--spec-draft-n-max"}
        method = self.given.get("--spec-type", "none")
        drafts = "-md" in self.given and (build == "old" or method != "none")
        drafts |= method == "draft-mtp"  # layers of the target itself
        self.longest = int(self.given.get(names[build], 0)) if drafts else 0
        self.choose = draft if "draft" in Path(self.given["-m"]).name else target

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        ids: list[int] = list(body["prompt"])
        out: list[int] = []
        drafted = taken = 0
        milliseconds = 0.002 - PASS  # the first token is the prompt's, its clock runs already
        events: list[dict[str, Any]] = []
        while len(out) < body["n_predict"]:
            length = min(self.longest, body["n_predict"] - len(out) - 1) if out else 0
            drafted += length
            for _ in range(length):
                guess = draft(ids + out)
                if guess != target(ids + out):
                    break
                out.append(guess)
                taken += 1
            out.append(self.choose(ids + out))
            milliseconds += PASS + DRAFTED * length
            timings = {"prompt_n": 1, "predicted_n": len(out)}
            timings["prompt_ms"] = READ[self.choose.__name__]
            timings["predicted_ms"] = milliseconds
            if drafted:
                timings |= {"draft_n": drafted, "draft_n_accepted": taken}
            events += [{"tokens": [token], "timings": timings} for token in out[len(events) :]]
        found: dict[str, Any] = {"tokens": out, "timings": timings, "events": events}
        if count := body.get("n_probs"):
            first = self.choose(ids)
            others = [i for i in range(SIZE) if i != first][: count - 1]
            top = [{"id": first, "logprob": -0.5}, *({"id": i, "logprob": -4.0} for i in others)]
            found["completion_probabilities"] = [{"top_logprobs": top}]
        return found

    def answer(self, path: str, body: dict[str, Any]) -> Any:
        if path == "/completion":
            return self.complete(body)
        if path == "/tokenize":
            return {"tokens": [ord(letter) % SIZE for letter in f"ab{body['content']}"]}
        if path == "/apply-template":
            return {"prompt": body["messages"][-1]["content"]}
        settings = {"n_ctx": CONTEXT}
        return {
            "/health": {"status": "ok"},
            "/props": {
                "default_generation_settings": settings,
                "total_slots": 1,
                "model_ftype": "TOY",
                "build_info": "toy-1",
            },
            "/v1/models": {"data": [{"id": "toy", "meta": {"n_vocab": SIZE}}]},
            "/slots": [{"speculative": self.longest > 0}],
        }[path]


def serve(toy: Toy) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply({})

        def do_POST(self) -> None:
            self.reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def reply(self, body: dict[str, Any]) -> None:
            found = toy.answer(self.path, body)
            raw = json.dumps(found).encode()
            if body.get("stream"):
                raw = b"".join(b"data: %s\n\n" % json.dumps(e).encode() for e in found["events"])
            self.send_response_only(200)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    ThreadingHTTPServer(("127.0.0.1", int(toy.given["--port"])), Handler).serve_forever()


def main(build: str, arguments: list[str]) -> None:
    if arguments == ["--help"]:
        print(HELP[build])
    elif arguments == ["--list-devices"]:
        free = os.environ.get("TOY_FREE", "512")
        print(f"Available devices:\n  CUDA0: Toy GPU (1024 MiB, {free} MiB free)")
    else:
        with Path(__file__).with_name(f"{build}.log").open("a") as log:
            told = [f"{k}={v}" for k, v in os.environ.items() if k.startswith("LLAMA_ARG_")]
            print(" ".join(arguments + told), file=log)
        if "refused.gguf" in " ".join(arguments):
            sys.exit("error: failed to load model")
        time.sleep(0.05)
        serve(Toy(build, arguments))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
