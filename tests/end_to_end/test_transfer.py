"""`holdfast transfer`: a matrix from a file to a page, with an aligned source and its controls."""

import json

import pytest

from tests.end_to_end.command import good, holdfast, refused, said
from tests.end_to_end.test_align import RECIPE, SMALL, SOURCE

ALIGNED = "runs/zoo-aligned"
MATRIX = f"""
sources: [{SOURCE}, {SMALL}, {ALIGNED}/source-by-small/seed-0, {ALIGNED}/source-by-itself/seed-0]
targets: [{SOURCE}, {SMALL}, runs/zoo/other/seed-0]
attacks:
  - pgd: {{threat: {{linf: 0.2}}, steps: 3}}
  - mi: {{threat: {{linf: 0.2}}, steps: 3}}
test_first: 30
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("matrix")
    (place / "zoo.yaml").write_text(f"{RECIPE}  other: {{model: linear}}\n")
    good("train", "zoo.yaml", cwd=place)
    good("align", SOURCE, "--witness", SMALL, "--controls", "--batch-size", "40", cwd=place)
    (place / "cross.yaml").write_text(MATRIX)
    return place


def test_a_matrix_is_printed_written_and_repeated(place):
    shown = good("transfer", "cross.yaml", cwd=place)
    for words in ("error rates in percent of images that source and target get right", "mi linf eps=0.2", "Networks",
                  "report: runs/cross/report.html", "aligned with itself"):  # fmt: skip
        assert words in shown
    page = (place / "runs" / "cross" / "report.html").read_bytes()
    assert "that source and target get right without an attack" in page.decode()
    output = said("transfer", "cross.yaml", cwd=place)
    assert (place / "runs" / "cross" / "report.html").read_bytes() == page
    assert len(output["rates"]) == 2 * (4 * 3 * 2 + 4 * 2)  # `other` is no source, so that nothing is qualified there
    networks = {one["name"]: one for one in output["matrix"]["networks"]}
    assert [one["source"] for one in networks.values()] == [True] * 4 + [False]
    changes = output["changes"]
    assert len(changes) == 2 * 2 * 3
    counted = {(one["after"].split("/")[1], one["target"].split("/")[1]) for one in changes if one["counts_in_mean"]}
    assert counted == {("source-by-small", "other"), ("source-by-itself", "small"), ("source-by-itself", "other")}
    assert {one["control"] for one in changes} == {"", "aligned with itself"}


def test_an_aligned_source_without_controls_is_pointed_out(place):
    sources = f"sources=[{SOURCE}, {ALIGNED}/source-by-small/seed-0]"
    shown = good("transfer", "cross.yaml", "--set", sources, "--set", "name=alone", cwd=place)
    assert "is not compared with 4 of 4 controls" in shown
    assert "Without controls." in shown


def test_refusals_are_one_line(place):
    assert "expected at least one" in refused("transfer", "cross.yaml", "--set", "attacks=[]", cwd=place)
    assert "there is none" in refused("transfer", "cross.yaml", "--set", "sources=[runs/nothing]", cwd=place)
    done = holdfast("transfer", "cross.yaml", "--set", "test_first=10", "--json", cwd=place)
    assert json.loads(done.out)["matrix"]["data"]["test"] == 10
