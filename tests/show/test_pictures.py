"""Pictures on a page, on a terminal and for machines."""

from __future__ import annotations

import io

from rich.console import Console

from holdfast.show.figures import Key
from holdfast.show.html import environment, figures_of, parts_of
from holdfast.show.pictures import Panel, Picture, Shape, Words
from holdfast.show.plain import to_plain
from holdfast.show.terminal import draw

PICTURE = Picture(
    "two <dots>", 20, 10, [Shape("M1 1h0", "mark-0", ink=2, label="<cat>"), Shape("M2 2h0", fill="#fff")],
    [Words("<x>", 1.25, 2, "end")], caption="<a>",
)  # fmt: skip
PANEL = Panel("Dots of <b>", "dots", [PICTURE, PICTURE], (Key("<cat>", 2, 0, point=True),))


def page() -> str:
    return environment().get_template("items.html.j2").module.draw(parts_of([PANEL], ["a"], "dots"))


def test_a_page_draws_every_shape_and_word() -> None:
    text = page()
    assert text.count('viewBox="0 0 20 10"') == 2
    assert text.count('<path class="mark-0" style="--ink-of:var(--series-2)" d="M1 1h0">') == 2
    assert text.count('<path fill="#fff" d="M2 2h0"></path>') == 2
    assert text.count('<text x="1.2" y="2.0" class="end">') == 2
    assert '<div class="dots">' in text
    assert "var(--series-2)" in text[: text.index('viewBox="0 0 20 10"')]  # the legend comes first


def test_a_page_escapes_what_names_hold() -> None:
    text = page()
    for name in ("dots", "cat", "x", "a", "b"):
        assert f"<{name}>" not in text
        assert f"&lt;{name}&gt;" in text
    assert text.count("<title>&lt;cat&gt;</title>") == 2
    assert text.count("<figcaption>&lt;a&gt;</figcaption>") == 2


def test_pictures_are_for_pages_only() -> None:
    console = Console(file=io.StringIO(), width=100)
    draw([PANEL], console)
    assert console.file.getvalue() == ""  # type: ignore[attr-defined]
    assert to_plain([PANEL]) == []
    assert figures_of(parts_of([PANEL], ["a"], "dots")) == []  # no script draws them
