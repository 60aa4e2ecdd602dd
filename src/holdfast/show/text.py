"""Text that cannot steer a terminal, whatever names it holds."""

from __future__ import annotations

import re

CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # all but tab and line feed
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"  # invisible, or turning the direction of what follows
    "\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"  # halves of characters, annotations, tags
)


PLAIN = str.maketrans({"\u00a0": " ", "\u202f": " "})
"""Spaces of typesetters, which people cannot search for on a terminal."""


def visible(text: str) -> str:
    r"""The text with every control character written out, such as `\x1b` or `\u202e`."""
    return CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    r"""A name, a cell or a line of a terminal: tabs and line feeds are written out as well, and spaces are plain."""
    return visible(text.translate(PLAIN)).replace("\n", "\\n").replace("\t", "\\t")
