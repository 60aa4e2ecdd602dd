"""Sections of the report on a terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.sections import show_overview, show_sections
from holdfast.errors import RecipeError
from holdfast.report import read_runs
from tests.report.factory import FakeCheck, make_run, pgd
from tests.report.test_corruptions import graded

RUN = [FakeCheck("clean", correct=[True] * 4), pgd(0.1, [True, True, False, False])]


def test_an_overview_leaves_out_what_has_nothing_and_what_is_folded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show_overview(read_runs([make_run(tmp_path / name, RUN, name=name) for name in "ab"]))
    out = capsys.readouterr().out
    assert "a: 100.0 % [51.0, 100.0] clean. Worst case in linf: 50.0 % at eps=0.1." in out
    assert "Accuracy in each check" in out
    assert "No attack made of several" not in out
    assert "see the report" not in out
    assert "Wilson interval; the line below" not in out  # a guide to the page


def test_whole_sections_say_why_they_are_empty_and_name_what_is_folded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = read_runs([make_run(tmp_path / name, RUN, name=name) for name in "ab"])
    show_sections("yields,accuracy", runs, as_json=False)
    out = capsys.readouterr().out
    assert "No attack made of several, such as AutoAttack, was run." in out
    assert "What the checks cost: in the report and in --json." in out


def test_sections_of_charts_and_pictures_alone_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = read_runs([make_run(tmp_path / name, RUN, name=name, gallery=RUN[1].name) for name in "ab"])
    show_sections("robustness, gallery", runs, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "robustness: charts and pictures only, see the report; numbers: --show accuracy.",
        "gallery: charts and pictures only, see the report.",
    ]
    show_sections("gallery", runs, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"gallery": []}


def test_machines_get_sections_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = read_runs([make_run(tmp_path / "a", RUN)])
    show_sections("accuracy", runs, as_json=True)
    table, cost = json.loads(capsys.readouterr().out)["accuracy"]
    assert table["rows"][1] == {"name": "pgd linf eps=0.1 steps=20", "cells": [4, 0.5]}
    assert cost["details"] == "What the checks cost"
    show_sections("all", runs, as_json=True)
    assert {"accuracy", "mixing", "provenance"} <= set(json.loads(capsys.readouterr().out))


def test_unknown_sections_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="--show: unknown name 'acuracy'"):
        show_sections("acuracy", read_runs([make_run(tmp_path / "a", RUN)]), as_json=False)


@pytest.mark.parametrize(
    "command",
    [
        ("report", "a", "b", "--show", "all"), ("compare", "a", "b"), ("mce", "a"),
        ("select", "a", "b", "--by", "clean", "--accuracy", "1"),
    ],
    ids=lambda command: command[0],
)  # fmt: skip
def test_stored_results_are_shown_without_torch(tmp_path: Path, command: tuple[str, ...]) -> None:
    for name in "ab":
        make_run(tmp_path / name, [*RUN, graded("fog", 1, 2)], name=name)
    code = f"import sys; from holdfast.cli import app; app({[*command]}, standalone_mode=False); " \
           "sys.exit('torch' in sys.modules)"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
