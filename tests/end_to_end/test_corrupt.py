"""`holdfast corrupt` and `holdfast mce` as a user calls them."""

import json

import numpy as np
import pytest

from holdfast.data import Digits, resolve
from holdfast.results.corruption_errors import STANDARD
from tests.end_to_end.command import good, refused, said
from tests.end_to_end.test_certify import SMALL


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("holdfast.show.page.plotly_script", lambda: "")


@pytest.mark.parametrize("form", ["npz", "folder"])
def test_it_writes_a_data_set_for_each_kind_and_severity_that_holdfast_reads(tmp_path, form):
    argv = ["corrupt", "digits", "--out", "c", "--kinds", "fog,contrast", "--severities", "2,5", "--format", form]
    good(*argv, "--subset", "20", cwd=tmp_path)
    ending = ".npz" if form == "npz" else ""
    expected = [f"{kind}-{severity}{ending}" for kind in ("fog", "contrast") for severity in (2, 5)]
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == sorted([*expected, "corruptions.json"])
    options = {} if form == "npz" else {"grey": True}
    found = resolve(str(tmp_path / "c" / f"fog-5{ending}"), **options)()
    assert len(found.test) == 20
    assert found.shape == Digits()().shape


def test_what_is_there_is_not_written_again(tmp_path):
    argv = ["corrupt", "digits", "--out", "c", "--kinds", "fog", "--severities", "1", "--subset", "5"]
    good(*argv, cwd=tmp_path)
    before = (tmp_path / "c" / "fog-1.npz").stat().st_mtime_ns
    good(*argv, cwd=tmp_path)
    assert (tmp_path / "c" / "fog-1.npz").stat().st_mtime_ns == before


def test_npy_files_are_as_those_of_cifar_10_c_and_can_be_checked(tmp_path):
    good("corrupt", "digits", "--out", "c", "--format", "npy", "--kinds", "fog,pixelate", cwd=tmp_path)
    images, labels = np.load(tmp_path / "c" / "fog.npy"), np.load(tmp_path / "c" / "labels.npy")
    count = len(Digits()().test)
    assert images.shape == (5 * count, 8, 8, 1)
    assert images.dtype == np.uint8
    assert len(labels) == 5 * count
    checks = "checks=[clean, {stored: {path: c, kind: {each: [fog, pixelate]}, severity: {each: [1, 5]}}}]"
    (tmp_path / "tiny.yaml").write_text(SMALL)
    good("run", "tiny.yaml", "--set", checks, cwd=tmp_path)
    found = said("mce", "runs", cwd=tmp_path)["runs"]
    assert [(one["family"], one["kinds"], one["mce"]) for one in found] == [("stored", 2, None)]
    evaluated = said("evaluate", "runs/tiny/seed-0", "--data", "c/fog.npy", "--checks", "quick", cwd=tmp_path)
    clean = next(one for one in evaluated["results"] if one["check"] == "clean")
    assert clean["examples"] == 5 * count
    fifth = "{npy: {path: c/fog.npy, severity: 5}}"
    evaluated = said("evaluate", "runs/tiny/seed-0", "--data", fifth, "--checks", "clean", cwd=tmp_path)
    assert {(one["check"], one["examples"]) for one in evaluated["results"]} >= {("clean", count)}
    assert not any(one["check"].startswith("stored") for one in evaluated["results"])


def test_mean_errors_are_told_and_divided(tmp_path):
    kinds = ", ".join(STANDARD)
    text = SMALL + f"checks: [clean, {{common: {{kind: {{each: [{kinds}]}}, severity: {{each: [1, 3]}}}}}}]\n"
    (tmp_path / "tiny.yaml").write_text(text.replace("block: 32", "block: 40"))
    shown = good("run", "tiny.yaml", cwd=tmp_path)
    assert "Mean corruption error, common corruptions" in shown
    assert "severity=" not in shown
    (plain,) = said("mce", "runs", cwd=tmp_path)["runs"]
    errors = plain["errors"]
    assert set(errors) == set(STANDARD)
    assert plain["mce"] == pytest.approx(sum(errors.values()) / 15)
    (own,) = said("mce", "runs", "--reference", "runs/tiny/seed-0", cwd=tmp_path)["runs"]
    assert own["relative"] == pytest.approx(1)
    (other,) = json.loads(good("mce", "runs", "--reference", "alexnet", "--json", cwd=tmp_path))["runs"]
    assert other["relative"] is None  # two of the five severities


@pytest.mark.parametrize("changed", [["--subset", "6"], ["--seed", "1"], ["--family", "bar", "--kinds", "lines"]])
def test_other_corruptions_do_not_mix_with_those_that_are_there(tmp_path, changed):
    argv = ["corrupt", "digits", "--out", "c", "--kinds", "fog", "--format", "npy", "--subset", "5"]
    good(*argv, cwd=tmp_path)
    labels = (tmp_path / "c" / "labels.npy").read_bytes()
    assert "c: holds corruptions of another" in refused(*argv, *changed, cwd=tmp_path)
    assert (tmp_path / "c" / "labels.npy").read_bytes() == labels
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    assert "expected a new or empty directory" in refused("corrupt", "digits", "--out", "full", cwd=tmp_path)


def test_missing_stored_files_are_refused_before_training(tmp_path):
    (tmp_path / "tiny.yaml").write_text(SMALL)
    checks = "checks=[clean, {stored: {path: nowhere, kind: fog, severity: 1}}]"
    assert "nowhere: not found" in refused("run", "tiny.yaml", "--set", checks, cwd=tmp_path)
    assert not list(tmp_path.rglob("*.safetensors"))


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--kinds", "fogg"], "--kinds: unknown name 'fogg'"),
        (["--family", "foo"], "--family: unknown name 'foo'; known: bar, common"),
        (["--severities", "0"], "--severities: expected numbers from 1 to 5"),
        (["--format", "png"], "--format: unknown name 'png'"),
        (["--format", "npy", "--severities", "1"], "expected all five beside --format npy"),
    ],
)
def test_bad_options_are_one_line(tmp_path, argv, says):
    assert says in refused("corrupt", "digits", "--out", "c", *argv, cwd=tmp_path)


def test_runs_without_corruptions_are_refused(tmp_path):
    (tmp_path / "tiny.yaml").write_text(SMALL)
    good("run", "tiny.yaml", "--set", "checks=[clean]", cwd=tmp_path)
    assert "got none" in refused("mce", "runs", cwd=tmp_path)


def test_a_grey_folder_read_in_colour_says_how_to_read_it(tmp_path):
    argv = ["--kinds", "fog", "--severities", "1", "--format", "folder", "--subset", "20"]
    good("corrupt", "digits", "--out", "c", *argv, cwd=tmp_path)
    (tmp_path / "tiny.yaml").write_text(SMALL)
    good("train", "tiny.yaml", cwd=tmp_path)
    assert "--grey reads a folder in one channel" in refused(
        "evaluate", "runs/tiny/seed-0", "--data", "c/fog-1", cwd=tmp_path
    )
    good("evaluate", "runs/tiny/seed-0", "--data", "c/fog-1", "--grey", "--checks", "quick", cwd=tmp_path)


def test_stored_corruptions_of_several_directories_are_told_apart(tmp_path):
    good("corrupt", "digits", "--out", "c", "--format", "npy", cwd=tmp_path)
    (tmp_path / "d").symlink_to(tmp_path / "c")
    kinds = f"{{each: [{', '.join(STANDARD)}]}}"
    stored = [f"{{stored: {{path: {path}, kind: {kinds}, severity: {level}}}}}" for path, level in (("c", 1), ("d", 5))]
    (tmp_path / "tiny.yaml").write_text(SMALL + f"checks: [{', '.join(stored)}]\n")
    told = good("run", "tiny.yaml", cwd=tmp_path)
    assert "stored corruptions (c)" in told
    assert "stored corruptions (d)" in told
    run = next((tmp_path / "runs").rglob("run.json")).parent
    found = said("mce", str(run), "--reference", str(run), cwd=tmp_path)["runs"]
    assert [one["relative"] for one in found] == [1.0, 1.0]
    assert found[0]["mce"] != found[1]["mce"]
