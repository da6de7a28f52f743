"""Cut one text with two tokenizer.json files and compare the ids, in a child with limits.

The tokenizers library runs what the files say: regular expressions without end, texts that
grow, panics.
"""

from __future__ import annotations

import sys

from draftcheck.models import limited
from draftcheck.values.comparison import Behaviour

CHILD = """
from tokenizers import Tokenizer
text = sys.stdin.buffer.read().decode()
found = []
for path in sys.argv[4:]:
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    found.append(tokenizer.encode(text, add_special_tokens=sys.argv[3] == "special").ids)
print(json.dumps(found))
"""
NOT_RUN = (
    "a browser cannot run the tokenizers library: draftcheck pair can"
    if sys.platform == "emscripten"
    else "the tokenizers library cannot run these two files"
)
TEXT = """\
The other day the weather there was better than the forecast, and I've said they'll agree: don't
we? It's HERE, isn't it; Mr. O'Neill (aged 47) paid $1,234.56 on 2024-02-29 at 09:05 -- 3.14159!
def fibonacci(n: int) -> list[int]:
    a, b = 0, 1
\twhile len(out) < n and not done:  # TODO: naive café, façade, coöperate
        out.append(a); a, b = b, a + b  ->  {"key": [1, 22, 333, 4444, 55555, 666666]}
    return [x ** 2 for x in out if x % 2 == 0]


SELECT name, COUNT(*) FROM users WHERE id IN (1,2,3) GROUP BY name; </div><p class="x">&nbsp;
http://example.org/path?query=%20value&x=1#top  user.name+tag@mail.example  C:\\\\dir\\\\file.txt
Größe, Straße, naïveté, señor, Ångström, Łódź, İstanbul, Ελληνικά, Привет, мир! עברית العربية
你好，世界。 これはテストです。 한국어 문장입니다. ภาษาไทย हिन्दी தமிழ் 🙂👍🏽🏳️‍🌈 ½ ² ™ “quotes” … – —
  leading,   many    spaces\u00a0and\u200bzero width   \t\ttabs   \r\n\r\n   trailing   \n\n\n
UPPER lower camelCase snake_case kebab-case 0x1F 1e-10 v2.0.1 AaBbCc xxxxxxxxxxxxxxxxxxxxxxx ======
"""


def run(target: str, draft: str) -> Behaviour:
    """Whether both files cut the text into the same ids; unknown when one cannot be run."""
    found = cut((target, draft), TEXT)
    if found is None:
        return Behaviour(None, NOT_RUN)
    ours, theirs = found
    if ours == theirs:
        return Behaviour(True, f"same ids for a probe text of {len(ours)} tokens")
    pairs = enumerate(zip(ours, theirs, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
    return Behaviour(
        False, f"a probe text gives {len(ours)} and {len(theirs)} ids, different from number {at}"
    )


def cut(
    paths: tuple[str, str], text: str, *, special: bool = False
) -> tuple[list[int], list[int]] | None:
    """The ids of the text by both files; None when one cannot be run.

    special: with the tokens that a tokenizer puts around every text.
    """
    frame = "special" if special else "plain"
    found = limited.run(CHILD, frame, *paths, text=text)
    return (found[0], found[1]) if isinstance(found, list) else None
