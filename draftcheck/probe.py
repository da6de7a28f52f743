"""A text that meets the things tokenizers cut differently: words, code, numbers, scripts, space."""

PROBE = """\
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
