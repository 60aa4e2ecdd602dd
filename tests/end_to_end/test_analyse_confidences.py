"""`holdfast analyse confidences` as a user calls it."""

import statistics

import pytest

from tests.end_to_end.command import good, refused, said
from tests.end_to_end.test_certify import SMALL
from tests.report.reading import read

RUN = "runs/tiny/seed-0"
SURE = ["analyse", "confidences", RUN]
CHECKS = "checks=[clean, {fgsm: {threat: {linf: 0.3}}}, {pgd: {threat: {linf: 0.2}, steps: 4}}]"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("holdfast.show.page.plotly_script", lambda: "")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("sure")
    (path / "tiny.yaml").write_text(SMALL)
    good("run", "tiny.yaml", "--set", "train.epochs=6", "--set", CHECKS, "--set", "analyses=[confidences]", cwd=path)
    return path


def test_confidence_is_printed_kept_by_example_and_shown(place, monkeypatch):
    monkeypatch.setattr("holdfast.questions.sureness.confidences", None)  # the recipe asked the same question
    output = said(*SURE, cwd=place)
    (answer,) = output["answers"]
    assert (answer["settings"], answer["examples"]) == ({"norm": "linf", "eps": 0.2}, 40)
    (table,) = [item for item in output["shown"] if "caption" in item]
    rows = {row["name"]: row["cells"] for row in table["rows"]}
    columns = answer["columns"]
    true = [statistics.fmean(columns["clean_true"]), *map(statistics.fmean, zip(*columns["pgd1_true"], strict=True))]
    assert true == sorted(true, reverse=True)  # the step lowers the true class, the more the longer it is
    names = ["clean images", "one step of PGD, ℓ∞ 0.1", "one step of PGD, ℓ∞ 0.2"]
    assert [rows[f"tiny/seed-0 (best), {name}"][1] for name in names] == pytest.approx(true)
    assert rows["tiny/seed-0 (best), clean images"][2] == statistics.fmean(columns["clean_right"])
    assert "one step of PGD, ℓ∞ 0.2" in good(*SURE, cwd=place)
    (report,) = output["reports"]
    assert table["caption"] in read(place / report).tables


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--norm", "l2"], "analyse confidences: norm: expected eps beside norm l2"),
        (["--eps", "much"], "--eps: expected a number"),
        (["--eps", "2"], "linf: eps must be at most 1"),
        (["--norm", "l0", "--eps", "3"], "--norm: expected 'linf', 'l2' or 'l1'; got 'l0'"),
    ],
)
def test_bad_questions_are_one_line(place, options, line):
    assert line in refused(*SURE, *options, cwd=place)
