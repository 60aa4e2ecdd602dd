"""The page in a real browser: it draws, follows the theme, fits a phone and asks nobody for anything."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.report import write_report
from tests.report.factory import DIGITS, FakeCheck, composed, make_run, nearest, noise, pgd
from tests.report.hostile import hostile_runs

pytestmark = pytest.mark.browser
LOCAL = ("file:", "data:", "blob:")


@pytest.fixture(name="page")
def _page() -> Iterator[Any]:
    """A page that collects every message, error, dialog and request to elsewhere in `page.trouble`."""
    api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on the path")
    with api.sync_playwright() as playwright:
        arguments = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
        page.trouble = []
        page.on("console", lambda message: page.trouble.append(message.text))
        page.on("pageerror", lambda error: page.trouble.append(str(error)))
        page.on("request", lambda request: request.url.startswith(LOCAL) or page.trouble.append(request.url))
        yield page
        browser.close()


@pytest.fixture(name="report")
def _report(tmp_path: Path) -> Path:
    right = [True] * 30 + [False] * 10
    checks = [FakeCheck("clean", correct=[True] * 40), noise(0.1, right), pgd(0.1, right), pgd(0.2, [False] * 40)]
    checks += [composed("aabswx" * 6 + "cccc"), nearest("fmn", 0.3, [0.01 * n for n in range(30)] + [None] * 10)]
    runs = [
        make_run(
            tmp_path / name,
            checks,
            name=f"digits/{name}/seed-0",
            weights=("best", "last"),
            classes=DIGITS,
            epochs=5,
            gallery=checks[2].name,
        )
        for name in ("standard", "noisy", "adversarial")
    ]
    return write_report(runs, tmp_path / "report.html")


def overflow(page: Any) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def test_draws_and_follows_the_reader(page: Any, report: Path) -> None:
    page.goto(report.as_uri())
    assert page.locator(".plot .main-svg").count() >= 5
    for link in page.locator("nav a").all():
        link.click()
        assert page.url.endswith(link.get_attribute("href"))
    assert page.trouble == []


def test_curves_step_and_unfinished_points_are_hollow(page: Any, report: Path) -> None:
    page.goto(report.as_uri())
    chart = page.locator("#distances-0")
    assert "Robust accuracy in ℓ∞." in chart.get_attribute("aria-label")
    assert chart.locator(".js-line").count() == 3  # the same attack in three runs
    fills = "(all) => all.map((mark) => getComputedStyle(mark).fill)"
    marks = chart.locator(".points path").evaluate_all(fills)
    assert len(marks) == 9  # two budgets of pgd and autoattack
    assert marks.count("none") + sum("rgba(0, 0, 0, 0)" in mark for mark in marks) == 3
    assert page.locator("#unfinished .doubt").is_visible()


def test_theme_changes_page_and_figures(page: Any, report: Path) -> None:
    page.goto(report.as_uri())
    colours = """[getComputedStyle(document.body).backgroundColor,
        getComputedStyle(document.querySelector('.plot .js-line')).stroke]"""
    light = page.evaluate(colours)
    page.keyboard.press("Tab")
    page.locator("#theme").press("Enter")
    dark = page.evaluate(colours)
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    assert page.locator("#theme").get_attribute("aria-pressed") == "true"
    page.locator("#theme").click()
    assert page.evaluate(colours) == light
    page.emulate_media(color_scheme="dark")
    assert page.locator("html").get_attribute("data-theme") == "light"  # the reader's choice stays
    assert page.trouble == []


def test_confusion_shows_the_chosen_matrix(page: Any, report: Path) -> None:
    page.goto(report.as_uri())
    assert page.locator(".panel:visible").count() == 1
    page.select_option(".pick select", index=1)
    assert page.locator(".panel:visible").get_attribute("id").endswith("-1")
    assert "pgd linf eps=0.2" in page.locator(".panel:visible caption").inner_text()


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_page_never_scrolls_sideways(page: Any, report: Path, width: int) -> None:
    page.goto(report.as_uri())
    page.set_viewport_size({"width": width, "height": 844})
    page.evaluate("document.querySelectorAll('details').forEach((item) => { item.open = true; })")
    page.wait_for_timeout(300)
    assert overflow(page) == 0
    assert page.trouble == []


def test_print_is_light_and_open_and_then_as_before(page: Any, report: Path) -> None:
    page.goto(report.as_uri())
    closed = page.locator("details:not([open])").count()
    assert closed
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert page.locator("html").get_attribute("data-theme") == "light"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() == closed
    assert page.locator("html").get_attribute("data-theme") is None
    assert page.trouble == []


def test_hostile_names_do_nothing_and_fit(page: Any, tmp_path: Path) -> None:
    page.goto(write_report(hostile_runs(tmp_path), tmp_path / "report.html").as_uri())
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator(".plot").first.hover()
    page.wait_for_timeout(300)
    assert page.evaluate("window.broken") is None
    assert page.locator(".plot img, .plot script, .plot a[href]").count() == 0
    assert overflow(page) == 0
    assert page.trouble == []


def test_without_figures_the_page_still_works(page: Any, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [FakeCheck("clean", correct=[True, False])], facts={"name": "bare"}, recipe=None)
    page.goto(write_report([run], tmp_path / "report.html").as_uri())
    page.locator("#theme").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert page.trouble == []
