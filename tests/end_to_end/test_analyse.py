"""`holdfast analyse` and `holdfast select` as a user calls them."""

import json

import pytest

from holdfast.analysis.store import read_answers
from tests.end_to_end.command import good, refused, said
from tests.end_to_end.test_certify import SMALL
from tests.report.reading import read

ASKED = ["--eps", "0,0.2", "--sigma", "0,0.1", "--steps", "3", "--draws", "4", "--batch-size", "7"]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("holdfast.report.page._plotly", lambda: "")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("grid")
    variants = "variants: {a: {}, b: {train: {epochs: 2}}}\n"
    (path / "tiny.yaml").write_text(SMALL.replace("name: tiny", "name: grid") + variants)
    good("run", "tiny.yaml", "--set", "checks=[clean, {gaussian_noise: {sigma: {each: [0.2, 0.6]}}}]", cwd=path)
    return path


def test_the_map_is_printed_kept_and_shown(place):
    run = "runs/grid/a/seed-0"
    found = said("analyse", "sra", run, *ASKED, cwd=place)
    cells = {(cell["eps"], cell["sigma"]): cell["safe"] for cell in found["result"]["cells"]}
    assert set(cells) == {(0.0, 0.0), (0.0, 0.1), (0.2, 0.0), (0.2, 0.1)}
    assert cells[0.2, 0.0] <= cells[0.0, 0.0]
    (answer,) = read_answers(place / found["run"])
    assert answer.settings["examples"] == 40
    shown = good("analyse", "sra", run, *ASKED, cwd=place)
    assert f"{100 * cells[0.2, 0.1]:.1f} %" in shown
    page = read(place / found["report"])
    assert any("zero_one loss, 40 images" in caption for caption in page.tables)


def test_a_part_of_the_images_has_a_directory_of_its_own(place):
    found = said("analyse", "sra", "runs/grid/a/seed-0", *ASKED, "--subset", "10", cwd=place)
    assert found["settings"]["examples"] == 10
    assert found["run"] != "runs/grid/a/seed-0"
    assert found["report"] is None  # nothing was evaluated there


def test_what_is_known_is_not_computed_again(place, monkeypatch):
    run = "runs/grid/b/seed-0"
    first = said("analyse", "sra", run, *ASKED, cwd=place)
    monkeypatch.setattr("holdfast.analysis.sra.sra", None)
    assert said("analyse", "sra", run, *ASKED, cwd=place) == first


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["what"], "analyse: unknown name 'what'; known: sra"),
        (["sra", "runs/grid/a/seed-0", "--eps", "a"], "--eps"),
        (["sra", "runs/grid/a/seed-0", "--sigma", "-1"], "--sigma: expected numbers from 0 on"),
        (["sra", "runs/grid/a/seed-0", "--loss", "marging"], "--loss: unknown name 'marging'"),
        (["sra", "runs/grid/a/seed-0", "--norm", "l0"], "--norm: unknown name 'l0'; known: l1, l2, linf"),
        (["sra", "nowhere"], "nowhere"),
    ],
)
def test_bad_questions_are_one_line(place, argv, says):
    assert says in refused("analyse", *argv, cwd=place)


def test_the_best_within_the_band_is_marked(place):
    found = said("select", "runs", "--by", "noise", "--accuracy", "0.5", "--within", "0.5", cwd=place)
    values = [run["noise area"] for run in found["runs"]]
    assert found["by"] == "noise area"
    assert len(values) == 2
    assert values == sorted(values, reverse=True)
    shown = good("select", "runs", "--by", "noise", "--accuracy", "0.5", "--within", "0.5", "--per", "model", cwd=place)
    assert shown.count("best") == 1
    assert "none in the band" in good("select", "runs", "--by", "noise", "--accuracy", "0", "--within", "0", cwd=place)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["runs", "--by", "nois", "--accuracy", "98.5"], "expected an accuracy in [0, 1]"),
        (["runs", "--by", "radius", "--accuracy", "0.5"], "unknown name 'radius'"),
        (["runs", "--by", "noise", "--accuracy", "0.5", "--per", "train.objektive"], "'objektive' is none"),
        (["nowhere", "--by", "noise", "--accuracy", "0.5"], "nowhere"),
    ],
)
def test_bad_selections_are_one_line(place, argv, says):
    assert says in refused("select", *argv, cwd=place)


def test_json_is_one_object(place):
    text = good("select", "runs", "--by", "clean", "--accuracy", "0.5", "--within", "0.5", "--json", cwd=place)
    assert set(json.loads(text)) == {"by", "accuracy", "within", "runs"}
