"""`holdfast analyse segment` as a user calls it."""

import json
import shutil

import pytest

from holdfast.results import Ledger
from tests.end_to_end.command import good, measured, refused, said
from tests.end_to_end.test_certify import SMALL
from tests.report.reading import read

RUN = "runs/tiny/seed-0"
WAY = ["analyse", "segment", RUN, "--points", "5"]
CHECKS = "checks=[clean, {fgsm: {threat: {linf: 0.3}}}, {pgd: {threat: {linf: 0.2}, steps: 4}}]"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("holdfast.report.page.plotly_script", lambda: "")


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
    found = said(*WAY, cwd=place)
    rows = measured(place / RUN, "segment")
    assert found["settings"]["attack"] == "pgd linf eps=0.2 steps=4"  # the first iterated attack of the run
    assert json.loads(found["settings"]["params"])["until_lost"] is False
    start, end = found["result"]["curve"][0], found["result"]["curve"][-1]
    assert end["loss"]["mean"] > start["loss"]["mean"]
    assert end["loss"]["mean"] == pytest.approx(rows["loss"].list.get(4).mean())
    assert start["first"]["mean"] == pytest.approx(start["loss"]["mean"], abs=1e-6)
    assert start["first_within"] == 1
    clean = Ledger(place / RUN / "ledger").read().filter(check="clean", weights="best").sort("example")
    assert rows["right"].to_list() == clean["correct"].to_list()
    assert rows["loss"].list.get(0).to_list() == pytest.approx(clean["loss"].to_list(), abs=1e-5)
    shown = good(*WAY, cwd=place)
    assert "40 segments to pgd linf eps=0.2 steps=4, expanded at the image" in shown
    assert "second order: within 0.1 of the loss up to" in shown
    page = read(place / found["report"])
    assert "Single images at both ends of their segments" in page.tables


def test_batches_resuming_and_repeating_do_not_change_the_rows(place, monkeypatch):
    first = said(*WAY, cwd=place)
    before = measured(place / RUN, "segment")
    sorted((place / RUN / "measures").iterdir())[1].unlink()
    said(*WAY, "--batch-size", "7", cwd=place)
    after = measured(place / RUN, "segment")
    assert after.head(32).equals(before.head(32))
    for name in ("slope", "bend", "second_end"):
        assert after[name].to_list() == pytest.approx(before[name].to_list(), rel=1e-3, abs=1e-4)
    monkeypatch.setattr("holdfast.analysis.segment.loss_along_segment", None)
    again = said(*WAY, cwd=place)
    assert again["settings"] == first["settings"]


def test_no_more_images_than_a_batch_are_in_memory(place, monkeypatch):
    import holdfast.analysis.segment as module

    sizes, whole = [], module.loss_along_segment

    def watching(model, x, z, y, **options):
        def asked(images):
            sizes.append(len(images))
            return model(images)

        return whole(asked, x, z, y, **options)

    monkeypatch.setattr(module, "loss_along_segment", watching)
    said(*WAY, "--batch-size", "8", cwd=place)
    assert max(sizes) == 8


def test_options_name_another_attack_or_place(place):
    other = said(*WAY, "--norm", "l2", "--eps", "0.5", "--around", "0.5", "--tolerance", "100", cwd=place)
    assert other["settings"]["attack"] == "apgd l2 eps=0.5 steps=50"
    middle = other["result"]["curve"][2]
    assert middle["first_error"]["mean"] == pytest.approx(0, abs=1e-6)
    assert other["result"]["first"]["to_the_end"] == 1
    assert "expanded at 0.5" in good(*WAY, "--around", "0.5", cwd=place)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["segment", RUN, "--around", "2"], "--around: expected a number from 0 to 1, got 2"),
        (["segment", RUN, "--tolerance", "0"], "--tolerance: expected a positive number, got 0"),
        (["segment", RUN, "--points", "1"], "--points"),
        (["segment", RUN, "--norm", "l2"], "analyse segment: expected --eps beside --norm l2"),
    ],
)
def test_bad_questions_are_one_line(trained, argv, says):
    assert says in refused("analyse", *argv, cwd=trained)
