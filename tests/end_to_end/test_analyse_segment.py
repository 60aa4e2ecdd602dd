"""`holdfast analyse segment` and `confidences` as a user calls them."""

import json
import shutil

import polars as pl
import pytest

from holdfast.results import Ledger
from tests.end_to_end.command import good, refused, said
from tests.end_to_end.test_certify import SMALL
from tests.report.reading import read

RUN = "runs/tiny/seed-0"
WAY = ["analyse", "segment", RUN, "--points", "5"]
CHECKS = "checks=[clean, {fgsm: {threat: {linf: 0.3}}}, {pgd: {threat: {linf: 0.2}, steps: 4}}]"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("holdfast.show.page.plotly_script", lambda: "")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("way")
    (path / "tiny.yaml").write_text(SMALL)
    good("run", "tiny.yaml", "--set", "train.epochs=6", "--set", CHECKS, cwd=path)
    return path


@pytest.fixture
def place(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "here")
    return tmp_path / "here"


def test_segments_are_printed_kept_by_example_and_shown(place):
    output = said(*WAY, cwd=place)
    (answer,) = output["answers"]
    rows = pl.DataFrame(answer["columns"])
    assert answer["settings"]["attack"] == "pgd linf eps=0.2 steps=4"  # the first iterated attack of the run
    assert json.loads(answer["settings"]["params"])["until_lost"] is False
    start, end = (rows["loss"].list.get(number).mean() for number in (0, 4))
    assert end > start
    (details,) = [item for item in output["shown"] if "Losses and expansions" in item.get("details", "")]
    (table,) = details["items"]
    first, *_, last = (row["cells"] for row in table["rows"])
    assert last[0] == pytest.approx(end)
    assert first[1] == pytest.approx(first[0], abs=1e-6)
    assert first[5] == 1
    clean = Ledger(place / RUN / "ledger").read().filter(check="clean", weights="best").sort("example")
    assert rows["right"].to_list() == clean["correct"].to_list()
    assert rows["loss"].list.get(0).to_list() == pytest.approx(clean["loss"].to_list(), abs=1e-5)
    shown = good(*WAY, cwd=place)
    assert "pgd linf eps=0.2 steps=4, expanded at the image: the loss goes from" in shown
    assert f"{end:.4g}" in shown
    page = read(place / output["reports"][0])
    assert "Single images at both ends of their segments" in page.tables


def test_batches_resuming_and_repeating_do_not_change_the_rows(place, monkeypatch):
    def rows(*options):
        (answer,) = said(*WAY, *options, cwd=place)["answers"]
        return pl.DataFrame(answer["columns"])

    before, stored = rows(), place / RUN / "answers"
    last = max(stored.glob("segment-*.parquet"))
    last.unlink()
    sums = stored / "checksums.txt"
    sums.write_text("".join(line for line in sums.read_text().splitlines(keepends=True) if last.name not in line))
    after = rows("--batch-size", "7")
    assert after.head(32).equals(before.head(32))
    for name in ("slope", "bend", "second_end"):
        assert after[name].to_list() == pytest.approx(before[name].to_list(), rel=1e-3, abs=1e-4)
    monkeypatch.setattr("holdfast.questions.segment.measurement.loss_along_segment", None)
    assert rows().equals(after)


def test_no_more_images_than_a_batch_are_in_memory(place, monkeypatch):
    import holdfast.questions.segment.measurement as module

    sizes, whole = [], module.loss_along_segment

    def watching(model, x, z, y, **options):
        def counted(images):
            sizes.append(len(images))
            return model(images)

        return whole(counted, x, z, y, **options)

    monkeypatch.setattr(module, "loss_along_segment", watching)
    said(*WAY, "--batch-size", "8", cwd=place)
    assert max(sizes) == 8


def test_options_name_another_attack_or_place(place):
    options = ["--norm", "l2", "--eps", "0.5", "--around", "0.5", "--tolerance", "100"]
    (answer,) = (output := said(*WAY, *options, cwd=place))["answers"]
    assert answer["settings"]["attack"] == "apgd l2 eps=0.5 steps=50"
    assert set(answer["columns"]["first_reach"]) == {1.0}
    (details,) = [item for item in output["shown"] if "Losses and expansions" in item.get("details", "")]
    assert details["items"][0]["rows"][2]["cells"][3] == pytest.approx(0, abs=1e-6)  # the error half way
    assert "expanded at 0.5" in good(*WAY, "--around", "0.5", cwd=place)


def test_a_recipe_asks_about_segments(place):
    (place / "asks.yaml").write_text(SMALL.replace("name: tiny", "name: asks"))
    analyses = ["--set", CHECKS, "--set", "analyses=[{segment: {points: 3, eps: 0.1}}]"]
    output = said("run", "asks.yaml", *analyses, cwd=place)
    assert any("Loss and expansions of asks" in caption for caption in read(place / output["report"]).tables)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["segment", RUN, "--around", "2"], "around: expected a number from 0 to 1; got 2"),
        (["segment", RUN, "--tolerance", "0"], "tolerance: expected a positive number; got 0"),
        (["segment", RUN, "--points", "1"], "points: expected a number from 2 to 1001; got 1"),
        (["segment", RUN, "--norm", "l2"], "analyse segment: norm: expected eps beside norm l2"),
    ],
)
def test_bad_questions_are_one_line(trained, argv, says):
    assert says in refused("analyse", *argv, cwd=trained)
