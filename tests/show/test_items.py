"""The same items on a page, on a terminal and for machines."""

from __future__ import annotations

import io

from rich.console import Console

from holdfast.show.chart import Chart, Curve
from holdfast.show.html import environment, figures_of, parts_of
from holdfast.show.items import Details, Heading, Note
from holdfast.show.plain import to_plain
from holdfast.show.table import Cell, Table
from holdfast.show.terminal import draw, to_text

TABLE = Table("Sizes", "Run", ["Length"], [("<b>a</b>\x1b[31m", [Cell("1 cm", "± 2", value=1.0)])])
CHART = Chart("Lengths", "time", (Curve(0, "length", (0.0, 1.0), (2.0, 3.0)),), False)
ITEMS = ["A sentence.", Heading("Numbers"), CHART, TABLE, Details("All of them", [TABLE, CHART])]


def test_a_page_escapes_names_and_folds_details_and_finds_every_figure() -> None:
    parts = parts_of(ITEMS, ["a"], "sizes")
    text = environment().get_template("items.html.j2").module.draw(parts)  # type: ignore[attr-defined]
    assert "<p>A sentence.</p>" in text
    assert "<h3>Numbers</h3>" in text
    assert "&lt;b&gt;a&lt;/b&gt;" in text
    assert "<summary>All of them</summary>" in text
    assert [each.identifier for each in figures_of(parts)] == ["sizes-0", "sizes-inside-4-0-1"]
    assert text.count('id="sizes-table-3"') == text.count('href="#sizes-table-3"') == 1
    assert text.count('id="sizes-inside-4-0-table-0"') == text.count('href="#sizes-inside-4-0-table-0"') == 1


def test_a_terminal_shows_tables_without_controls_and_names_details() -> None:
    console = Console(file=io.StringIO(), width=100)
    draw(ITEMS, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "A sentence." in text
    assert "1 cm ± 2" in text
    assert "\x1b[31m" not in text
    assert "All of them: in the report and in --json." in text


def test_a_terminal_shows_details_that_are_to_be_printed() -> None:
    console = Console(file=io.StringIO(), width=100)
    draw([Details("All of them", [TABLE, CHART], open=True)], console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "1 cm ± 2" in text
    assert "see the report" not in text


def test_machines_get_numbers_where_a_cell_has_one() -> None:
    plain = to_plain(ITEMS)
    assert plain[:2] == [{"text": "A sentence."}, {"heading": "Numbers"}]
    assert plain[2]["rows"][0]["cells"] == [1.0]
    assert plain[3]["items"] == [plain[2]]


def test_columns_below_a_heading_have_it_in_their_names() -> None:
    cells = [Cell("1"), Cell("2"), Cell("3")]
    groups = [("", 1), ("noisy", 1), ("clean", 1)]
    table = Table("Accuracy", "Check", ["Examples", "best", "best"], [("pgd", cells)], groups, totals=1)
    (plain,) = to_plain([table])
    assert plain["columns"] == ["Examples", "noisy, best", "clean, best"]
    assert plain["totals"] == 1
    assert TABLE.headings() == [["Length"]]
    lines = to_text([table]).splitlines()
    assert lines[2].split() == ["noisy", "clean"]
    assert lines[3].split() == ["Check", "Examples", "best", "best"]


def test_a_terminal_leaves_out_guides_and_headings_of_nothing_and_breaks_no_line_of_a_pipe() -> None:
    console = Console(file=io.StringIO(), width=20)
    long = "word " * 20
    draw([Note("how to read"), Heading("Charts"), CHART, Heading("Sizes"), long, Note(long, "doubt", "Look.")], console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.strip() for line in lines] == ["Sizes", long.strip(), f"Look. {long}".strip()]
    folded = Console(file=io.StringIO(), width=100)
    draw([Details("All of them", [TABLE])], folded, folded=False)
    assert folded.file.getvalue() == ""  # type: ignore[attr-defined]
