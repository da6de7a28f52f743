"""--gpu: names, sizes, several devices, and what the drivers of this machine say."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from draftcheck.errors import UsageError
from draftcheck.memory import gpus
from draftcheck.memory.gpus import GIB, MIB
from draftcheck.rulebook import files

POSIX = pytest.mark.skipif(os.name != "posix", reason="fake drivers are shell scripts")


def test_h200_is_what_cuda_reports() -> None:
    (gpu,) = gpus.parse("h200").devices
    assert (gpu.name, gpu.memory, gpu.free) == ("h200", 150_109_880_320, None)
    assert gpu.capability == (9, 0)
    assert gpu.bandwidth == 4_800_000_000_000


@pytest.mark.parametrize(
    "spelling", ["rtx-4090", "RTX 4090", "NVIDIA GeForce RTX 4090", "4090", "rtx_4090"]
)
def test_spellings_of_one_gpu(spelling: str) -> None:
    (gpu,) = gpus.parse(spelling).devices
    assert (gpu.name, gpu.memory) == ("rtx-4090", 24564 * MIB)


def test_several() -> None:
    machine = gpus.parse("2x rtx-4090")
    assert [gpu.name for gpu in machine.devices] == ["rtx-4090", "rtx-4090"]
    mixed = gpus.parse("rtx-5090 + 2x t4")
    assert [gpu.name for gpu in mixed.devices] == ["rtx-5090", "t4", "t4"]
    assert mixed.capability == (7, 5)


@pytest.mark.parametrize(
    ("text", "memory"),
    [("24GiB", 24 * GIB), ("24gb", 24 * 10**9), ("22.5 GiB", 45 * GIB // 2), ("512MiB", 512 * MIB)],
)
def test_a_memory_always_works(text: str, memory: int) -> None:
    (gpu,) = gpus.parse(text).devices
    assert (gpu.memory, gpu.capability, gpu.available) == (memory, None, memory)


def test_capability_is_unknown_where_no_device_has_one() -> None:
    assert gpus.parse("mi300x+24GiB").capability is None


@pytest.mark.parametrize("spec", ["", "+", "h200+", "0x h200", "9999x h200", "0GiB", "9e9GiB"])
def test_bad_specs(spec: str) -> None:
    with pytest.raises(UsageError):
        gpus.parse(spec)


def test_an_unknown_name_shows_near_ones() -> None:
    with pytest.raises(UsageError) as error:
        gpus.parse("rtx-4091")
    assert "rtx-4090" in (error.value.hint or "")
    assert "24GiB" in (error.value.hint or "")


def test_a_name_with_several_memories_asks_which() -> None:
    with pytest.raises(UsageError) as error:
        gpus.parse("a100")
    assert error.value.hint == "Name one: a100-40gb, a100-80gb."


def test_metal_leaves_a_share_to_the_system() -> None:
    assert gpus.parse("m1-16gb").devices[0].memory == 11_453_246_122  # 10,922.67 MiB
    assert gpus.parse("m2-max-64gb").devices[0].memory == 48 * GIB


def test_every_card_has_a_compute_capability_or_another_maker() -> None:
    """A card with neither would be taken for one of NVIDIA's whose capability nobody named."""
    rows = files.read("gpus", gpus.GpuFile).gpu
    assert all((row.capability is None) != (row.maker in (None, "nvidia")) for row in rows)


def test_every_row_is_sane() -> None:
    rows = files.read("gpus", gpus.GpuFile).gpu
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert gpus.slug(row.name) == row.name
        assert all(gpus.slug(alias) == alias for alias in row.aliases)
        assert 4 * 1024 <= row.mib <= 300 * 1024
        assert 100 <= row.bandwidth <= 10_000
        assert 0.95 < (row.usable or row.mib * MIB) / (row.mib * MIB) <= 1


def script(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing but what the test puts there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gpus, "_torch", lambda: ())
    monkeypatch.setattr(gpus.platform, "system", lambda: "Linux")
    return tmp_path


SMI = """echo 'NVIDIA H200, GPU-aaa1, 143771, 120000, 615, 9.0'
echo 'NVIDIA GeForce RTX 4090, GPU-bbb2, 24564, 20000, 347, 8.9'"""


@POSIX
def test_auto_asks_nvidia_smi(tools: Path) -> None:
    script(tools, "nvidia-smi", SMI)
    machine = gpus.parse("auto")
    first, second = machine.devices
    assert (first.memory, first.free) == ((143771 - 615) * MIB, 120000 * MIB)
    assert first.available == 120000 * MIB
    assert (second.capability, second.bandwidth) == ((8, 9), 1_008_000_000_000)
    assert machine.capability == (8, 9)


@POSIX
@pytest.mark.parametrize(("visible", "names"), [("1", [2]), ("GPU-bbb,0", [2, 1]), ("0,7,1", [1])])
def test_auto_sees_what_cuda_sees(
    tools: Path, monkeypatch: pytest.MonkeyPatch, visible: str, names: list[int]
) -> None:
    script(tools, "nvidia-smi", SMI)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    memories = {1: (143771 - 615) * MIB, 2: (24564 - 347) * MIB}
    found = gpus.parse("auto").devices
    assert [gpu.memory for gpu in found] == [memories[n] for n in names]


@POSIX
@pytest.mark.parametrize("body", ["exit 9", "echo 'No devices were found'", "sleep 60"])
def test_auto_says_so_when_nothing_answers(
    tools: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    monkeypatch.setattr(gpus, "SECONDS", 0.3)
    script(tools, "nvidia-smi", body)
    with pytest.raises(UsageError, match="no GPU answers here"):
        gpus.parse("auto")


@POSIX
def test_auto_asks_rocm_smi(tools: Path) -> None:
    card = {
        "Card Series": "AMD Instinct MI300X",
        "VRAM Total Memory (B)": "206141652992",
        "VRAM Total Used Memory (B)": "1000000000",
    }
    script(tools, "rocm-smi", f"echo '{json.dumps({'card0': card})}'")
    (gpu,) = gpus.parse("auto").devices
    assert (gpu.memory, gpu.free) == (206_141_652_992, 205_141_652_992)
    assert (gpu.bandwidth, gpu.capability, gpu.maker) == (5_300_000_000_000, None, "amd")


@POSIX
def test_auto_asks_metal(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus.platform, "system", lambda: "Darwin")
    script(
        tools,
        "sysctl",
        'case "$2" in hw.memsize) echo 68719476736;; iogpu*) echo 0;; *) echo Apple M2 Max;; esac',
    )
    (gpu,) = gpus.parse("auto").devices
    assert (gpu.name, gpu.memory, gpu.bandwidth) == ("Apple M2 Max", 48 * GIB, 400_000_000_000)


@POSIX
def test_torch_is_asked_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported here')", encoding="utf-8")
    (package / "version.py").write_text("cuda: str = '13.0'\n", encoding="utf-8")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(gpus.platform, "system", lambda: "Linux")
    python = tmp_path / "python"
    script(tmp_path, "python", "echo '[[\"NVIDIA L4\", 23580639232, 23000000000, [8, 9]]]'")
    monkeypatch.setattr(sys, "executable", str(python))
    (gpu,) = gpus.parse("auto").devices
    assert (gpu.memory, gpu.free, gpu.capability) == (23580639232, 23000000000, (8, 9))
