"""Names that try to become code, to steer a terminal, to lead out of a directory or to start a formula."""

import re

SCRIPTS = (
    "<img src=x onerror=window.__pwned=1>",
    "<svg onload=window.__pwned=1>",
    "\"' onmouseover=window.__pwned=1 {{ 7*7 }} %{x} &lt;b>",
    "javascript:window.__pwned=1",
    "[link=http:evil.test]x[red]\\",
    "`touch pwned` $(touch pwned); touch pwned",
)
"""Names of files as well: none has a slash."""

CONTROLS = ("\x1b[2J\x1b]0;pwned\x07\x1b]8;;http:evil.test\x07", "\u202egnp.exe\u2066", "two\nlines\r\tand a tab")

FORMULAS = ('=HYPERLINK("http:evil.test")', "+cmd|'C'!A0", "-2+3", "@SUM(1)")

PATHS = ("../../pwned", "/pwned", "..", "CON", "</script><script>window.__pwned=1</script>", "a\x00b")

NAMES = (*SCRIPTS, *CONTROLS, *FORMULAS)

RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Characters that no output may have."""
