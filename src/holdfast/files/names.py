"""File names for foreign strings."""

from __future__ import annotations

import re
from collections.abc import Sequence


def safe_names(texts: Sequence[str]) -> list[str]:
    """A file name for each of several foreign strings: different ones, inside any directory, and no hidden ones.

    Letters, digits and `_+-.` stay; where that makes two alike, or nothing, a number is added.
    """
    names: list[str] = []
    for text in texts:
        word = re.sub(r"[^\w.+-]+", "_", text).lstrip(".-")[:80] or "_"
        name, number = word, 1
        while name.casefold() in (taken.casefold() for taken in names) or name == "_":
            name, number = f"{word}_{number}", number + 1
        names.append(name)
    return names
