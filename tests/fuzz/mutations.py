"""Damage to bytes and text: what a disk, a bad copy or somebody with an editor does to a file."""

import copy
import itertools
import json
import re
import struct

EXTREMES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**40, 2**63 - 1, 2**64 - 1)
"""Values that counts, sizes and offsets are set to."""

HOSTILE = (
    None,
    True,
    False,
    0,
    1,
    -1,
    3,
    2**31,
    2**63,
    2**64,
    -(2**63) - 1,
    10**5000,
    0.5,
    -1.5,
    1e308,
    float("nan"),
    float("inf"),
    -float("inf"),
    "",
    "a",
    "\0",
    "\ud800",
    "\u202e",
    "a\nb",
    "é",
    "../../x",
    "/dev/zero",
    "best",
    "last",
    "nan",
    "1" * 5000,
    "x" * 10_000,
    [],
    {},
    [[]],
    [None],
    [1, "a"],
    {"": None},
    {"a": 1},
    {"each": [1, 2]},
    [0, 10**6, 10**6],
    [-1],
    [1.5],
    ["\ud800"],
    {"linf": 8},
    {"python": "os:system"},
)
"""Plain values of the wrong type, out of range, or awkward to print."""

TOKENS = (
    "null",
    "NaN",
    "-Infinity",
    "1e999",
    "-1",
    "0",
    "9" * 5000,
    "-" + "9" * 30,
    "0x" + "f" * 400,
    "1:2:3",
    '""',
    "''",
    "[",
    "]",
    "{",
    "}",
    "[" * 3000,
    "{a: " * 800,
    "&a",
    "*a",
    "<<",
    "!!python/object:os.system",
    "!!binary x",
    "!!timestamp 9",
    "2001-99-99",
    '"\\ud800"',
    '"\\u0000"',
    "\0",
    "\x85",
    "\ufeff",
    "\u2028",
    "\u202e",
    "\x1b[2J",
    ",",
    ":",
    "- ",
    "? ",
    "|",
    "%",
    "@",
    "#",
    "---",
    "...",
    "\n",
    "\t",
    "seeds",
    "variants",
    "each",
    "search",
    "true",
    "removed",
    "_",
    "..",
    "/",
    "..\\/",
)

WORDS = re.compile(r"\w+|\s+|.")
MOST_BYTES = 1 << 20
MOST_PLACES = 10_000


def damaged(content, draw, seeds):
    """A file with one or several bytes, or runs of bytes, changed."""
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        content = draw.choice(BYTES)(bytearray(content), draw, seeds)
    return bytes(content)[:MOST_BYTES]


def flip(content, draw, _):
    if content:
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    return content


def cut(content, draw, _):
    return content[: draw.randrange(len(content) + 1)]


def insert(content, draw, _):
    at, more = draw.randrange(len(content) + 1), draw.choice((1, 2, 8, 100))
    block = draw.choice((draw.randbytes(more), bytes(more), b"\xff" * more))
    return content[:at] + block + content[at:]


def delete(content, draw, _):
    at = draw.randrange(len(content) + 1)
    return content[:at] + content[at + draw.choice((1, 2, 4, 8, 100)) :]


def splice(content, draw, seeds):
    other = draw.choice(seeds)
    return content[: draw.randrange(len(content) + 1)] + other[draw.randrange(len(other) + 1) :]


def repeat(content, draw, _):
    start = draw.randrange(len(content) + 1)
    block = content[start : start + draw.choice((1, 4, 16, 100))]
    return content[:start] + block * draw.choice((2, 3, 50)) + content[start:]


def overwrite(content, draw, _):
    """Another number where one may be."""
    size = draw.choice((1, 2, 4, 8))
    at, order = draw.randrange(len(content) + 1), draw.choice(("little", "big"))
    value = draw.choice(EXTREMES) if draw.random() < 0.7 else draw.randrange(2**64)
    content[at : at + size] = (value % 256**size).to_bytes(size, order)
    return content


def nudge(content, draw, _):
    if content:
        at = draw.randrange(len(content))
        content[at] = (content[at] + draw.choice((-2, -1, 1, 2, 16, 64))) % 256
    return content


BYTES = (flip, flip, cut, insert, delete, splice, repeat, overwrite, overwrite, overwrite, nudge)


def respelled(content, draw, seeds):
    """A text with other words in it."""
    words = WORDS.findall(content.decode("utf-8", "surrogateescape"))
    others = WORDS.findall(draw.choice(seeds).decode("utf-8", "surrogateescape"))
    for _ in range(draw.choice((1, 1, 2, 4))):
        at = draw.randrange(len(words) + 1)
        new = draw.choice((draw.choice(TOKENS), draw.choice(others or [""]), draw.choice(words or [""])))
        words[at : at + draw.choice((0, 1, 1, 1, 3))] = [new]
    if draw.random() < 0.2:
        lines = "".join(words).split("\n")
        lines.insert(draw.randrange(len(lines)), draw.choice(lines))
        words = ["\n".join(lines)]
    return "".join(words).encode("utf-8", "surrogateescape" if draw.random() < 0.9 else "surrogatepass")[:MOST_BYTES]


def edited(tree, draw, values=HOSTILE):
    """Nested dictionaries and lists with a value changed, deleted, doubled or moved."""
    place = draw.choice(list(itertools.islice(_places(tree, ()), MOST_PLACES)) or [()])
    value = copy.copy(draw.choice(values))  # it may be changed further
    if not place:
        return value
    holder = tree
    for key in place[:-1]:
        holder = holder[key]
    way = draw.random()
    if way < 0.15:
        del holder[place[-1]]
    elif way < 0.25 and isinstance(holder, dict):
        holder[draw.choice(("", "a", "name", "\ud800", "1" * 300))] = value
    elif way < 0.3 and isinstance(holder, list):
        holder *= draw.choice((2, 100)) if len(holder) < 100 else 1
    elif way < 0.35:
        holder[place[-1]] = [holder[place[-1]]] if way < 0.325 else {"a": holder[place[-1]]}
    else:
        holder[place[-1]] = value
    return tree


def _places(tree, path):
    if path:
        yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from _places(value, (*path, key))


def json_edited(content, draw, _):
    """The same for a text in JSON."""
    tree = json.loads(content)
    for _ in range(draw.choice((1, 1, 2, 4))):
        tree = edited(tree, draw)
    text = json.dumps(tree, ensure_ascii=draw.random() < 0.8)
    return text.encode("utf-8", "surrogatepass")


def json_lines_edited(content, draw, seeds):
    """The same for one line of several."""
    lines = content.splitlines()
    at = draw.randrange(len(lines))
    lines[at] = json_edited(lines[at], draw, seeds)
    return b"\n".join(lines) + b"\n"


def with_length(header, data):
    """A block of bytes after its length, as safetensors begins."""
    return struct.pack("<Q", len(header)) + header + data
