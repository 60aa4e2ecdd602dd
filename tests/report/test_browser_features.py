"""Maps and loss surfaces in a real browser, under the page's own policy and without WebGL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.questions.answers import Store
from holdfast.report import write_report
from tests.questions import test_features, test_surface
from tests.questions.test_surface import surface
from tests.report.factory import DIGITS, FakeCheck, make_run
from tests.report.test_browser import _page, overflow  # noqa: F401

pytestmark = pytest.mark.browser


@pytest.fixture(name="report")
def _report(tmp_path: Path) -> Path:
    runs = []
    for name in ("standard", "noisy"):
        checks = [FakeCheck("clean", correct=[True, False] * 10)]
        made = make_run(tmp_path / name, checks, name=f"digits/{name}/seed-0", classes=DIGITS)
        for answer in (test_features.ANSWER, test_surface.ANSWER):
            Store(made).write(answer.key, answer.records)
        attacked = replace(test_surface.ANSWER.key, settings=test_surface.ATTACKED)
        Store(made).write(attacked, [surface(marks=[[1.5, 0.0], [0.5, 1.0]])])
        runs.append(made)
    return write_report(runs, tmp_path / "report.html")


def test_heat_maps_and_reliefs_are_drawn(page: Any, report: Path) -> None:
    page.goto(report.as_uri())
    assert page.locator("#surface .plot .hm image, #surface .plot .heatmaplayer image").count() == 4
    source = page.locator("#surface .plot .heatmaplayer image").first.get_attribute("href")
    assert source.startswith("data:image/png")
    assert page.locator("#surface .relief").count() == 4
    box = page.locator("#surface .relief path[fill]").first.bounding_box()
    assert box["width"] > 20
    assert page.trouble == []


def test_maps_follow_the_theme(page: Any, report: Path) -> None:
    page.goto(report.as_uri())
    assert page.locator("#features .dots svg").count() == 12
    ink = "getComputedStyle(document.querySelector('#features .dots path')).stroke"
    light = page.evaluate(ink)
    page.locator("#theme").click()
    assert page.evaluate(ink) != light
    assert page.trouble == []


@pytest.mark.parametrize("width", [390, 1280])
def test_pictures_fit_the_page(page: Any, report: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(report.as_uri())
    page.wait_for_timeout(300)
    assert overflow(page) == 0
    assert page.trouble == []
