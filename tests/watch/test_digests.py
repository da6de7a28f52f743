"""What a digest stands for: the same for every Python, another for other code."""

from __future__ import annotations

import pytest

from draftcheck.anchors.c_code import CFile
from draftcheck.anchors.lines import whole
from draftcheck.anchors.python_code import PythonFile

PYTHON = '''
@register(name="x")
class Config(Base):
    """Words."""

    limit: int | None = None
    """The most."""

    async def verify(self, other: "Config", *rest, scale=1.5, **more) -> bool:
        with open(f"{self.name!r:>{self.width}} of {other}") as file, lock:
            data = [x async for x in file if x % 2 == 0 and x not in rest]
        try:
            self.limit = data[1:-1] if data else None
        except (KeyError, ValueError) as error:
            raise RuntimeError("a" "b") from error
        else:
            del data
        finally:
            assert lambda y=1, /, *, z: y or -z, b"no"
        while True:
            match other:
                case {"kind": str(kind), **left} if kind:
                    return (yield)
                case [1, *_] | Config(limit=None):
                    break
                case _:
                    continue
        return not self.limit
'''
C = """
struct loader {
    // a comment with { in it
    loader(const std::string & path, int n) : path(path), n(n), inner(make(n)) {
        if (n > 1) { throw std::runtime_error("a { in words; and more"); }
    }
    bool check(int n) const {
        return n == 1; /* } */
    }
    int n;
};

static const std::map<int, const char *> NAMES = {
    { 1, "one" },
};

bool other::load(int n) {
    return check(n);
}
#define LIMIT 128
"""


def test_digests_are_the_same_for_every_python() -> None:
    """These were written down with one Python and hold with all that draftcheck supports."""
    assert whole(PythonFile(PYTHON).code("Config")) == "91a8ebc9676c8bae"
    assert whole(CFile(C).code("loader")) == "c6eece58b5594855"


@pytest.mark.parametrize(
    ("old", "new"),
    [("1.5", "1.25"), ("*rest", "*rests"), ("!r", "!s"), ("-z", "+z"), ("b\"no\"", "'no'"),
     ("case _:", "case None:"), ("limit: int", "limit: str"), ("x async for", "x for"),
     ('name="x"', 'name="y"'), ("(Base)", "(Other)"), ("from error", "from None"),
     ("            del data", "            del data, file")],
)  # fmt: skip
def test_other_python_has_another_digest(old: str, new: str) -> None:
    assert old in PYTHON
    text = PYTHON.replace(old, new)
    assert whole(PythonFile(text).code("Config")) != whole(PythonFile(PYTHON).code("Config"))


@pytest.mark.parametrize(
    ("symbol", "lines"),
    [("loader", 11), ("check", 3), ("other::load", 3), ("load", 3), ("NAMES", 4), ("LIMIT", 1)],
)
def test_places_of_c(symbol: str, lines: int) -> None:
    code = CFile(C).code(symbol)
    assert len(code) == lines
    spaced = CFile(C.replace("    ", "\t\n").replace("// a comment", "// other words")).code(symbol)
    assert whole(spaced) == whole(code)
    for old, new in (("n > 1", "n > 2"), ("n == 1", "n == 2"), ('"one"', '"two"'), ("128", "129")):
        touched = old in "\n".join(C.splitlines()[code[0].first - 1 : code[-1].last])
        changed = whole(CFile(C.replace(old, new)).code(symbol)) != whole(code)
        assert changed is touched


def test_words_in_quotes_count_and_their_braces_do_not() -> None:
    other = C.replace("a { in words; and more", "a } in words; and more")
    assert len(CFile(other).code("loader")) == len(CFile(C).code("loader"))
    assert whole(CFile(other).code("loader")) != whole(CFile(C).code("loader"))


@pytest.mark.parametrize("text", ["x = (" * 5000, "x = " + "-" * 100_000 + "1", "\0", "def f(:"])
def test_what_is_no_python_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="not parsed"):
        PythonFile(text).code("x")
