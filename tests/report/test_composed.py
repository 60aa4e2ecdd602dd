from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.report import write_report
from tests.report.factory import FakeCheck, composed, make_run
from tests.report.reading import Read, read


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.show.page.plotly_script", lambda: "")


def report(tmp_path: Path, *runs: Path) -> Read:
    return read(write_report(runs, tmp_path / "report.html"))


def test_the_yield_table_counts_what_each_component_did(tmp_path: Path) -> None:
    page = report(tmp_path, make_run(tmp_path / "run", [composed("caabsswx")]))
    table = page.table("best weights: autoattack linf eps=0.1, unfinished: 2 examples waiting.")
    assert table["Component"] == [
        "Tried", "Broken", "First to break", "Waiting", "Queries", "Seconds", "Broken per second",
    ]  # fmt: skip
    assert table["clean"] == ["8", "1", "1", "0", "80", "4.0", "0.25"]
    assert table["a"] == ["6", "2", "2", "1", "60", "3.0", "0.67"]
    assert table["b"] == ["3", "1", "1", "2", "30", "1.5", "0.67"]


def test_a_component_that_never_ran_has_no_cost(tmp_path: Path) -> None:
    table = report(tmp_path, make_run(tmp_path / "run", [composed("wwa")])).table("autoattack linf eps=0.1, unfinished")
    assert table["b"] == ["0", "0", "0", "2", "not run", "not run", "not run"]


def test_every_run_and_weights_has_its_table(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / n, [composed("as"), composed("aa", eps=0.2)], name=n, weights=("best", "last"))
        for n in "ab"
    ]
    captions = [
        caption
        for caption in report(tmp_path, *runs).tables
        if "weights: autoattack" in caption and "Rows" not in caption
    ]
    assert captions == [
        f"{run}, {weights} weights: autoattack linf eps={eps}."
        for run in "ab" for weights in ("best", "last") for eps in (0.1, 0.2)
    ]  # fmt: skip


def test_without_composed_attacks_the_page_says_so(tmp_path: Path) -> None:
    page = report(tmp_path, make_run(tmp_path / "run", [FakeCheck("clean", correct=[True])]))
    assert "No attack made of several, such as AutoAttack, was run." in page.words


def test_images_of_a_composed_attack_are_in_the_gallery(tmp_path: Path) -> None:
    check = composed("asasas")
    page = report(tmp_path, make_run(tmp_path / "run", [check], gallery=check.name))
    assert f"best weights: {check.name} Original, changed image" in page.words
    assert sum(tag == "img" for tag, _ in page.elements) == 18 + 1  # the spectrum of the changes
