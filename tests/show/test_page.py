"""Pages and notebooks: the same items, through the same templates."""

from __future__ import annotations

from html import unescape

import pytest

from holdfast.show.chart import Chart, Curve
from holdfast.show.items import Card, Choice, Code, Details, Note
from holdfast.show.page import Section, render_page, to_html
from holdfast.show.pictures import Photo, Photos
from holdfast.show.plain import to_plain
from holdfast.show.table import Cell, Table

TABLE = Table("Sizes of <b>", "Run", ["Length"], [("a", [Cell("1 cm", value=1.0)])], style="tall")
CHART = Chart("Lengths", "time", (Curve(1, "length", (0.0, 1.0), (2.0, 3.0)),), False)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.show.page.plotly_script", lambda: "")


def test_a_table_in_a_notebook_is_that_of_a_page() -> None:
    text = TABLE._repr_html_()
    assert text in render_page("", [Section.of("item", "", [TABLE])])
    assert "Sizes of &lt;b&gt;" in text
    assert "<script" not in text


def test_a_chart_in_a_notebook_has_a_page_of_its_own() -> None:
    text = CHART._repr_html_()
    assert text.startswith("<iframe srcdoc=")
    assert text.count("<") == 2  # the page is in an attribute
    page = unescape(text)
    assert 'id="item-0"' in page
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page
    assert "<nav" not in page
    assert '"name": "run 1"' in page


def test_sections_without_parts_are_left_out_and_those_without_a_title_are_not_listed() -> None:
    sections = [
        Section.of(name, title, items) for name, title, items in (("a", "A", []), ("b", "", ["x"]), ("c", "C", "y"))
    ]
    page = render_page("Title", sections, kicker="Kind")
    assert [f'id="{name}"' in page for name in "abc"] == [False, True, True]
    assert [f'href="#{name}"' in page for name in "abc"] == [False, False, True]


def test_charts_without_a_table_link_to_the_numbers_of_another_section_or_to_none() -> None:
    assert 'href="#there"' in render_page("", [Section.of("a", "A", [CHART], numbers="there")])
    assert "The numbers as a table" not in render_page("", [Section.of("a", "A", [CHART])])


def test_every_kind_of_item_is_drawn_and_escaped() -> None:
    odd = "<i>&"
    items = [
        Note(odd, "error", odd), Card(odd, [(odd, odd, odd)], odd, [odd]), Code(odd), Details(odd, [odd], open=True),
        Choice([(odd, [odd]), ("other", [TABLE])]), Photos([Photo([("data:,", odd)], odd, odd, odd)]),
    ]  # fmt: skip
    frame = to_html(items)
    text = unescape(frame).partition("<main>")[2]
    assert "<i>" not in text
    assert frame.count("<") == 2
    assert text.count("&lt;i&gt;&amp;") == 2 + 6 + 1 + 2 + 2 + 4
    assert '<p class="error" role="alert">' in text
    assert "<details open>" in text
    assert text.count('class="panel"') == 2


def test_machines_get_what_holds_items_and_no_guides() -> None:
    items = [
        Note("how to read"),
        Note("none", "missing"),
        Choice([("a", [TABLE])]),
        Card("r", [("n", "1", "2")], "l"),
        CHART,
    ]
    missing, choice, card = to_plain(items)
    assert missing == {"text": "none"}
    assert choice["choice"][0]["items"][0]["rows"] == [{"name": "a", "cells": [1.0]}]
    assert card["card"]["figures"] == [("n", "1", "2")]
