"""Every test: no network beyond loopback, no settings of the machine it runs on."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

os.environ["OMP_NUM_THREADS"] = "1"  # before torch: tiny models gain nothing by threads

from draftcheck.cli import main
from draftcheck.memory import gpus
from tests import chromium
from tests.report import make_schemas

hypothesis.settings.register_profile("no clock", deadline=None)  # machines may be slow
hypothesis.settings.load_profile("no clock")

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures"
SCRUBBED = (
    "HF_", "CUDA_", "TRANSFORMERS_", "VLLM_", "LLAMA_", "OLLAMA_", "DRAFTCHECK_CACHE", "NO_COLOR",
    "FORCE_COLOR",
)  # fmt: skip

LONGEST = (
    "web/test_page", "web/test_core", "web/test_site", "report/site/test_browser",
    "agreement/test_llamacpp", "models/hub/test_weather", "judge/test_rule_cases",
    "gate/test_bad_input", "gate/test_hooks", "trial/test_vllm", "scan/test_many_repos",
    "scan/test_damaged_store", "scan/test_nights", "scan/test_rules_change", "scan/test_killed",
    "models/hub/test_cache", "models/hub/test_budgets", "models/hub/test_recorded",
    "trial/heads/test_own_layers", "trial/heads/test_everywhere", "trial/heads/test_verify_heads",
    "trial/heads/test_families", "trial/test_trial", "trial/test_llamacpp", "trial/test_hostile",
    "fuzz/test_fuzz", "agreement/test_libllama", "agreement/test_transformers",
    "models/test_parameter_table", "models/test_second_opinion", "judge/test_make_rule_case",
)  # fmt: skip
"""Files that take longest, begun first where several processes share the suite: otherwise those
with few tests come last, and the last of them is waited for alone."""


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # xdist's order: by the number of tests


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        place = {f"tests/{name}.py": number for number, name in enumerate(LONGEST)}
        items.sort(key=lambda item: place.get(item.nodeid.partition("::")[0], len(place)))


@pytest.fixture(autouse=True)
def _alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith(SCRUBBED):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setattr(gpus, "present", lambda: False)
    real = socket.socket.connect

    def connect(self: socket.socket, address: Any) -> Any:
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a test tried to reach {address}")
        return real(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    yield


class Ran:
    """What a command line did."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found

    def engine(self, name: str) -> dict[str, Any]:
        return next(entry for entry in self.json["engines"] if entry["engine"] == name)


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a draftcheck command line in this process."""

    def call(*arguments: object) -> Ran:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        if (
            "--watch" not in arguments
            and make_schemas.SHAPES
            and "json" in arguments
            and captured.out.startswith("{")
        ):
            make_schemas.remember(str(arguments[0]), json.loads(captured.out))
        return Ran(code, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium; one for all files, as a process can hold one playwright."""
    with chromium.launched() as found:
        yield found


@pytest.fixture(scope="session")
def realdata() -> Path:
    """Real tokenizers and vocabularies, where they are."""
    folder = os.environ.get("DRAFTCHECK_REALDATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("DRAFTCHECK_REALDATA does not name a folder of real tokenizers")
    return Path(folder)
