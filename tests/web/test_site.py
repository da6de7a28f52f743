"""`draftcheck web` and `report --checker`: what is written, and what is refused."""

from __future__ import annotations

import io
import json
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from draftcheck.web import bundle, runtime
from tests.conftest import Run
from tests.report.site.made_up import make
from tests.report.site.stores import fill

LARGEST = 14_800_000


def test_the_site_is_whole_small_and_the_same_every_time(
    run: Run, parts: Path, tmp_path: Path
) -> None:
    ran = run("web", tmp_path / "a", "--runtime", parts)
    assert ran.code == 0 and ran.out.strip() == str(tmp_path / "a/index.html")
    again = run("web", tmp_path / "b", "--runtime", parts / runtime.PYODIDE.file)
    assert again.code == 0
    files = {p.relative_to(tmp_path / "a"): p for p in (tmp_path / "a").rglob("*") if p.is_file()}
    assert sum(path.stat().st_size for path in files.values()) <= LARGEST
    for name, path in files.items():
        assert path.read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    page = (tmp_path / "a/index.html").read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy and "default-src 'none'" in policy[1] and "unsafe-inline" not in policy[1]
    sources = re.findall(r'(?:src|href)="(?!data:|#|\?)([^"]*)"', page)
    assert [name for name in sources if "//" in name] == ["https://pyodide.org"]  # a link to read
    worker = (tmp_path / "a/sw.js").read_text(encoding="utf-8")
    kept = json.loads(re.search(r"FILES = (\[.*\]);", worker)[1])  # type: ignore[index]
    assert {*kept, "sw.js", "files.json"} == {name.as_posix() for name in files}
    (tmp_path / "c").mkdir()
    (tmp_path / "c/index.html").write_text("mine", encoding="utf-8")
    ran = run("web", tmp_path / "c", "--runtime", parts)
    assert ran.code == 3 and "not a file that draftcheck wrote" in ran.err
    assert (tmp_path / "c/index.html").read_text(encoding="utf-8") == "mine"


def test_of_python_is_left_out_what_nothing_imports(parts: Path) -> None:
    found = zipfile.ZipFile(io.BytesIO(bundle.archive(runtime.load(parts).msgspec)))
    used = {
        match[1].decode()
        for name in found.namelist()
        if name.endswith(".py")
        for match in re.finditer(rb"^\s*(?:import|from) (\w+)", found.read(name), re.MULTILINE)
    }
    assert {"json", "xml"} <= used and not used & {*bundle.UNUSED}, used & {*bundle.UNUSED}


def test_beside_the_pages_of_a_report(run: Run, parts: Path, tmp_path: Path) -> None:
    store = fill(tmp_path / "scan.db", make(1, 2, hostile=False))
    ran = run(
        "report", "--store", store, "--output", tmp_path / "out", "--checker", "--runtime", parts
    )
    assert ran.code == 0, ran.err
    for page in (tmp_path / "out").glob("*.html"):
        assert 'href="checker/index.html"' in page.read_text(encoding="utf-8"), page.name
    assert 'href="../index.html"' in (tmp_path / "out/checker/index.html").read_text("utf-8")
    assert run("report", "--store", store, "--output", tmp_path / "plain").code == 0
    assert "checker" not in (tmp_path / "plain/index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--runtime", "none"], 3, "none: no such file or folder"),
        (["--runtime", "other.tgz"], 3, "other.tgz: not the pyodide-"),
        (["--runtime", "."], 3, "HF_HUB_OFFLINE is set"),
    ],
)
def test_a_runtime_that_is_not_the_one(
    arguments: list[str], code: int, says: str, run: Run, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with tarfile.open("other.tgz", "w:gz"):
        pass
    ran = run("web", "site", *arguments)
    assert ran.code == code and says in ran.err, ran.err
    assert not (tmp_path / "site").exists()


def test_storage_is_an_origin(run: Run, parts: Path, tmp_path: Path) -> None:
    ran = run("web", tmp_path / "a", "--runtime", parts, "--storage", "https://x.y; script-src *")
    assert ran.code == 2 and "is not an origin" in ran.err
    ran = run("web", tmp_path / "a", "--runtime", parts, "--storage", "https://cdn.example:8443")
    assert ran.code == 0
    page = (tmp_path / "a/index.html").read_text(encoding="utf-8")
    assert "https://huggingface.co https://*.huggingface.co https://*.hf.co https://cdn.example:8443;" in page  # fmt: skip  # noqa: E501
