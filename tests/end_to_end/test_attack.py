"""`holdfast attack`: one attack on a run, a checkpoint or a foreign network, with what it found."""

import json
import os
import re
import shutil

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image

from holdfast.attacks import PGD
from holdfast.data import Digits, write_npz
from holdfast.results import Ledger
from holdfast.rng import Streams
from holdfast.runs import Run, load_model
from holdfast.threat import Linf
from tests.end_to_end import foreign
from tests.end_to_end.command import good, refused, said
from tests.report.reading import read
from tests.training.tiny import TEXT

RUN = "runs/tiny/seed-0"
SMALL = (
    TEXT.replace("subset: 40", "subset: 40, test_subset: 60") + "evaluate: {block: 32, batch_size: 16, gallery: 40}\n"
)
PGD_5 = ["--attack", "pgd", "--norm", "linf", "--eps", "0.1", "--steps", "5"]
LABEL = "pgd linf eps=0.1 steps=5"
AUTO = ["--attack", "autoattack", "--norm", "linf", "--eps", "0.03", "--steps", "3"]
AUTO += ["--set", "targets=2", "--set", "queries=10"]
SAVE = ["--save-npz", "a.npz", "--save-images", "shown"]
AUTO_LABEL = "autoattack linf eps=0.03 steps=3 targets=2 queries=10"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("holdfast.show.page.plotly_script", lambda: "")  # megabytes that these tests do not look at


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained")
    (path / "tiny.yaml").write_text(SMALL)
    good("train", "tiny.yaml", "--set", "train.epochs=3", cwd=path)
    assert Run(path / RUN).labels() == ["best", "last"]
    return path


@pytest.fixture
def place(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "here")
    return tmp_path / "here"


def rows_of(path, check):
    return Ledger(path / RUN / "ledger").read().filter(pl.col("check") == check)


def test_it_says_accuracy_before_and_after_distances_and_cost(place):
    found = said("attack", RUN, *PGD_5, cwd=place)
    rows, clean = rows_of(place, LABEL), rows_of(place, "clean")
    assert set(rows["weights"]) == {"best"}
    assert len(rows) == found["examples"] == 60
    assert found["clean"]["accuracy"] == clean["correct"].mean()
    assert found["attacked"]["accuracy"] == rows["correct"].mean()
    assert found["attacked"]["low"] < found["attacked"]["accuracy"] < found["attacked"]["high"]
    lost = rows.filter(~pl.col("correct") & clean["correct"])
    assert 0 < found["broken"] == len(lost) < 60
    assert found["distance"] == {"norm": "linf", "mean": lost["distance"].mean(), "median": lost["distance"].median()}
    assert found["queries"] == rows["queries"].sum()
    assert (found["yield"], found["not_run"], found["saved"]) == ([], [], {})
    shown = good("attack", RUN, *PGD_5, cwd=place)
    assert f"{100 * rows['correct'].mean():.1f} %" in re.search(f"{LABEL}.*", shown)[0]
    assert f"{found['broken']} images broken; linf distance mean {found['distance']['mean']:.4g}" in shown
    assert LABEL in read(place / RUN / "report.html").words


def test_every_field_can_be_set_and_nothing_is_repeated(place):
    more = ["--restarts", "2", "--loss", "dlr", "--set", "step_size=1/50", "--set", "until_lost=false"]
    found = said("attack", RUN, *PGD_5, *more, cwd=place)
    (params,) = set(rows_of(place, found["attack"])["params"])
    chosen = {"restarts": 2, "loss": "dlr", "step_size": 0.02, "until_lost": False, "steps": 5}
    assert {key: json.loads(params)[key] for key in chosen} == chosen
    files = {file: file.stat().st_mtime_ns for file in (place / RUN / "ledger").iterdir()}
    assert said("attack", RUN, *PGD_5, *more, cwd=place) == found
    assert {file: file.stat().st_mtime_ns for file in (place / RUN / "ledger").iterdir()} == files


def test_an_attack_inside_another_is_set_by_its_path(place):
    argv = ["--attack", "eight_bit", "--set", "attack.fgsm.threat.linf=8/255", "--set", "repairs=1"]
    assert said("attack", RUN, *argv, cwd=place)["attack"] == "eight_bit fgsm linf eps=8/255 repairs=1"


def test_a_checkpoint_on_a_subset_gets_a_run_of_its_own(place):
    found = said("attack", f"{RUN}/best.safetensors", *PGD_5, "--subset", "20", cwd=place)
    assert found["run"].startswith("runs/evaluations/best-")
    assert (found["weights"], found["examples"]) == ("given", 20)
    assert not (place / RUN / "ledger").exists()


def test_a_run_on_a_subset_is_named_after_its_variant(place):
    attacked = said("attack", RUN, *PGD_5, "--subset", "20", cwd=place)["run"]
    name = json.loads((place / attacked / "run.json").read_text())["name"]
    variant, directory = RUN.split("/")[-2:]
    assert name.startswith(f"{variant}-{directory}-")
    assert set(Ledger(place / attacked / "ledger").read()["run"]) == {name}


def test_a_foreign_network_is_attacked(tmp_path):
    write_npz(Digits()(), tmp_path / "digits.npz")
    torch.save(foreign.network().state_dict(), tmp_path / "w.pt")
    argv = ["--model", "python:tests.end_to_end.foreign:network", "--weights", "w.pt", "--data", "digits.npz"]
    found = said("attack", *argv, *PGD_5, "--subset", "20", "--seed", "3", "--name", "mine", cwd=tmp_path)
    assert (found["run"], found["examples"]) == ("runs/mine", 20)
    assert set(Ledger(tmp_path / "runs/mine/ledger").read()["seed"]) == {3}


def test_images_that_an_attack_could_not_run_on_are_no_survivors(tmp_path):
    write_npz(Digits()(), tmp_path / "digits.npz")
    constant = foreign.network().state_dict()
    constant = {name: torch.zeros_like(value) for name, value in constant.items()}  # everything is a zero
    torch.save(constant, tmp_path / "w.pt")
    argv = ["--model", "python:tests.end_to_end.foreign:network", "--weights", "w.pt", "--data", "digits.npz"]
    argv += ["--subset", "20", "--name", "mine"]
    walk = ["--attack", "hopskipjump", "--norm", "l2", "--eps", "5", "--set", "starts=2"]
    label = "hopskipjump l2 eps=5 starts=2"
    found = said("attack", *argv, *walk, cwd=tmp_path)
    assert (found["attacked"]["accuracy"], found["attacked"]["at_most"]) == (None, 0.1)
    assert found["attacked"]["low"] == 0.0
    assert found["not_run"] == [{"what": f"{label} (no starting point)", "examples": 2}]
    words = good("attack", *argv, *walk, cwd=tmp_path)
    assert "at most 10.0 %" in words
    assert "2 examples not attacked (no starting point)" in words
    checks = "[clean, {hopskipjump: {threat: {l2: 5}, starts: 2}}]"
    records = said("evaluate", *argv, "--checks", checks, cwd=tmp_path)["results"]
    for record in records[1:]:  # the attack, and the worst case in its threat
        assert (record["accuracy"], record["at_most"], record["not_attacked"]) == (None, 0.1, 2)
    words = good("evaluate", *argv, "--checks", checks, cwd=tmp_path)
    assert re.search(
        f"^ {label} .* at most 10.0 % .* 2 examples not attacked \\(no starting point\\)", words, re.MULTILINE
    )
    (path,) = tmp_path.glob("runs/**/report.html")
    table = read(path).table("Accuracy in each check")
    assert table[label][1].endswith("2 examples not attacked (no starting point)")


def test_an_evaluated_foreign_network_is_attacked_on_some_of_its_images_beside_its_results(tmp_path):
    write_npz(Digits()(), tmp_path / "digits.npz")
    torch.save(foreign.network().state_dict(), tmp_path / "w.pt")
    argv = ["--model", "python:tests.end_to_end.foreign:network", "--weights", "w.pt", "--data", "digits.npz"]
    assert said("evaluate", *argv, "--checks", "clean", cwd=tmp_path)["run"] == "runs/w-digits"
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "runs/w-digits/ledger").iterdir()}
    for network in (argv, ["runs/w-digits", "--trust"]):
        found = said("attack", *network, *PGD_5, "--subset", "20", cwd=tmp_path)
        assert (found["run"], found["examples"]) == ("runs/w-digits-20", 20)
        found = said("attack", *network, *PGD_5, "--first", "10", cwd=tmp_path)
        assert (found["run"], found["examples"]) == ("runs/w-digits-first-10", 10)
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "runs/w-digits/ledger").iterdir()} == before


def test_saved_arrays_are_what_the_ledger_tells_of(place):
    found = said("attack", RUN, *PGD_5, "--save-npz", "found/a.npz", cwd=place)
    assert found["saved"] == {"npz": "found/a.npz"}
    with np.load(place / "found/a.npz", allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    rows, clean = rows_of(place, LABEL), rows_of(place, "clean")
    for name, column in (("example", "example"), ("label", "label"), ("prediction_after", "prediction")):
        assert arrays[name].tolist() == rows[column].to_list()
    assert arrays["prediction_before"].tolist() == clean["prediction"].to_list()
    assert arrays["broken"].tolist() == (~rows["correct"]).to_list()
    assert arrays["distance"] == pytest.approx(rows["distance"].to_numpy())
    assert (str(arrays["norm"]), arrays["waiting"].any()) == ("linf", False)
    assert json.loads(str(arrays["attack"]))["params"]["steps"] == 5
    x, z = arrays["x"], arrays["z"]
    assert x.shape == z.shape == (60, 1, 8, 8)
    model, test = load_model(place / RUN).model.eval(), Digits()().test
    assert x == pytest.approx(test.batch(torch.from_numpy(arrays["example"]))[0].numpy())
    index = torch.from_numpy(arrays["example"])
    again = PGD(threat=Linf(0.1), steps=5)(
        model, torch.from_numpy(x), torch.from_numpy(arrays["label"]).long(), rng=Streams(0, "check", index)
    )
    assert again.numpy() == pytest.approx(z, abs=1e-6)


def test_points_of_what_was_done_before_are_found_again_without_changing_a_result(place):
    said("attack", RUN, *PGD_5, cwd=place)
    before = rows_of(place, LABEL)
    first = said("attack", RUN, *PGD_5, "--save-npz", "a.npz", cwd=place)
    assert rows_of(place, LABEL).equals(before)
    assert first["saved"] == {"npz": "a.npz"}
    kept = {file: file.stat().st_mtime_ns for file in (place / RUN / "points").iterdir()}
    assert len([file for file in kept if file.suffix == ".npy"]) == 2
    said("attack", RUN, *PGD_5, "--save-npz", "b.npz", cwd=place)
    assert {file: file.stat().st_mtime_ns for file in (place / RUN / "points").iterdir()} == kept
    assert (place / "a.npz").read_bytes() == (place / "b.npz").read_bytes()


def test_saved_images_are_named_by_example_label_and_prediction(place):
    said("attack", RUN, *PGD_5, "--save-images", "shown", "--save-npz", "a.npz", cwd=place)
    arrays = np.load(place / "a.npz")
    files = sorted((place / "shown").glob("*.png"))
    assert len(files) == 3 * 60
    for number in (0, 59):
        named = [arrays[key][number] for key in ("example", "label", "prediction_after")]
        stem = "{:06d}-label-{}-predicted-{}".format(*named)
        x, z = (np.rint(255 * arrays[key][number, 0]).astype(int) for key in "xz")
        original, perturbed, change = (
            np.asarray(Image.open(place / "shown" / f"{stem}-{kind}.png"), dtype=int)
            for kind in ("original", "perturbed", "difference-x5")
        )
        assert np.array_equal(original, x)
        assert np.array_equal(perturbed, z)
        magnified = 127.5 + 5 * 255 * (arrays["z"][number, 0] - arrays["x"][number, 0])
        assert np.abs(change - magnified).max() <= 0.51
    kept = {file.name for file in files}
    said("attack", RUN, *PGD_5, "--save-images", "shown", cwd=place)
    assert {file.name for file in (place / "shown").glob("*.png")} == kept
    line = refused("attack", RUN, *PGD_5, "--restarts", "2", "--save-images", "shown", cwd=place)
    assert "expected an empty or new directory; shown holds other files" in line


@pytest.mark.parametrize("kind", ["a named pipe", "a symbolic link", "a directory", "no text", "another's"])
def test_a_note_of_a_stranger_beside_saved_images_is_one_line(place, kind):
    note = place / "shown" / "attack.json"
    note.parent.mkdir()
    if kind == "a named pipe":
        os.mkfifo(note)
    elif kind == "a symbolic link":
        note.symlink_to(place / "tiny.yaml")
    elif kind == "a directory":
        note.mkdir()
    else:
        note.write_bytes(b"\xff" if kind == "no text" else b"{}")
    line = refused("attack", RUN, *PGD_5, "--save-images", "shown", cwd=place)
    whole = kind in ("no text", "another's")
    assert ("shown holds other files" if whole else f"shown/attack.json: expected a regular file, got {kind}") in line


def test_what_a_killed_process_left_of_the_note_is_in_nobodys_way(place):
    left = place / "shown" / ".attack.json.0123456789abcdef.tmp"
    left.parent.mkdir()
    left.write_text("{")
    said("attack", RUN, *PGD_5, "--save-images", "shown", cwd=place)
    assert not left.exists()
    assert json.loads((place / "shown" / "attack.json").read_text())["method"] == "pgd"


def test_a_budget_leaves_an_upper_bound_that_says_what_was_not_run(place):
    said("attack", RUN, *PGD_5, cwd=place)
    found = said("attack", RUN, *AUTO, "--budget", "0s", *SAVE, cwd=place)
    clean = found["clean"]["accuracy"]
    assert found["attack"] == AUTO_LABEL
    assert (found["attacked"]["accuracy"], found["attacked"]["at_most"]) == (None, clean)
    waiting = round(60 * clean)
    steps = ["apgd-ce", "apgd-t", "fab-t", "square"]
    assert found["not_run"] == [{"what": f"{AUTO_LABEL}: {step}", "examples": waiting} for step in steps]
    arrays = np.load(place / "a.npz")
    assert arrays["waiting"].sum() == waiting
    assert (arrays["prediction_before"] == arrays["label"]).sum() == waiting
    words = good("attack", RUN, *AUTO, "--budget", "0s", cwd=place)
    assert f"at most {100 * clean:.1f} %" in words
    assert re.search(f"^ {AUTO_LABEL}: square +.* best +{waiting} $", words, re.MULTILINE)
    whole = said("attack", RUN, *AUTO, *SAVE, cwd=place)
    assert len(list((place / "shown").glob("*.png"))) == 3 * 60  # those of the first visit are gone
    assert (whole["not_run"], whole["attacked"]["accuracy"] <= clean) == ([], True)
    assert [one["step"] for one in whole["yield"]] == ["clean", *steps]
    assert sum(one["credited"] for one in whole["yield"]) == 60 - round(60 * whole["attacked"]["accuracy"])
    arrays = np.load(place / "a.npz")
    assert arrays["waiting"].sum() == 0
    assert arrays["broken"].sum() == 60 - round(60 * whole["attacked"]["accuracy"])
    page = read(place / RUN / "report.html")
    assert set(steps) <= set(page.table(f"best weights: {AUTO_LABEL}."))
    assert f"best weights: {AUTO_LABEL} Original, changed image" in page.words


def test_what_another_command_left_out_is_not_forgotten(place):
    good("attack", RUN, *PGD_5, cwd=place)
    left = said("attack", RUN, *PGD_5, "--restarts", "3", "--budget", "0s", cwd=place)
    assert left["attacked"] is None
    assert left["not_run"] == [{"what": f"{LABEL} restarts=3", "examples": 60}]
    good("attack", RUN, *PGD_5, cwd=place)
    page = read(place / RUN / "report.html")
    assert page.table("Not run")[f"{LABEL} restarts=3"][-1] == "60"
    assert page.table("Accuracy in each check")["worst case, linf eps=0.1"][1].startswith("at most ")
    (card,) = (
        json.loads((place / "h.json").read_text()) if said("report", RUN, "--headline", "h.json", cwd=place) else ()
    )
    assert card["worst_case_acc"] is None
    assert card["unfinished"] == [{"what": f"{LABEL} restarts=3", "examples": 60}]
    good("attack", RUN, *PGD_5, "--restarts", "3", cwd=place)
    assert "Unfinished" not in read(place / RUN / "report.html").words


def test_comparison_on_the_command_line_knows_no_unfinished_difference(place):
    shutil.copytree(place / "runs", place / "more")
    for runs in ("runs", "more"):
        good("attack", f"{runs}/tiny/seed-0", *PGD_5, cwd=place)
        good("attack", f"{runs}/tiny/seed-0", *AUTO, "--budget", "0s", cwd=place)
    pair = ["compare", RUN, "more/tiny/seed-0"]
    records = {one["check"]: one for one in said(*pair, cwd=place)["paired"]}
    assert records[AUTO_LABEL]["difference"] is None
    assert "waiting" in records[AUTO_LABEL]["unfinished"]
    assert records[LABEL]["difference"] == 0
    assert re.search("autoattack linf .* +unknown +unknown", good(*pair, cwd=place))


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--attack", "pdg", "--norm", "linf", "--eps", "0.1"], "--attack: unknown name 'pdg'"),
        (["--attack", "pgd", "--norm", "l3", "--eps", "0.1"], "--attack pgd.threat: unknown name 'l3'"),
        (["--attack", "pgd", "--norm", "linf", "--eps", "much"], "--attack pgd.threat.linf.eps: expected a number"),
        (["--attack", "pgd", "--norm", "linf"], "expected --norm and --eps together; got only --norm"),
        (["--attack", "pgd", "--eps", "0.1"], "expected --norm and --eps together; got only --eps"),
        (["--attack", "pgd"], "--attack pgd.threat: expected a value; got nothing"),
        ([*PGD_5, "--set", "stepz=3"], "--attack pgd.stepz: unknown name 'stepz'"),
        ([*PGD_5, "--set", "steps"], "--set: expected something like step_size=0.01; got 'steps'"),
        ([*PGD_5, "--set", "loss=[1"], "--set loss: expected a YAML value; got '[1'"),
        (["--attack", "fgsm", "--norm", "linf", "--eps", "0.1", "--steps", "3"], "--attack fgsm.steps: unknown name"),
        ([*PGD_5, "--budget", "soon"], "--budget: expected a time such as 90s"),
        ([*PGD_5, "--seed", "1"], "and --seed go with --model; got a RUN too"),
        ([*PGD_5, "--save-npz", "."], "--save-npz: expected the name of a file; . is a directory"),
        ([*PGD_5, "--save-images", "tiny.yaml"], "--save-images: expected a directory; tiny.yaml is a file"),
        ([*PGD_5, "--save-images", "."], "--save-images: expected an empty or new directory; . holds other files"),
        (["--norm", "linf", "--eps", "0.1"], "Missing option '--attack'"),
        ([*PGD_5, "--budget", "0s"], f"{RUN}: nothing was run within the budget; allow more time"),
    ],
)
def test_mistakes_are_one_line(trained, argv, line):
    assert line in refused("attack", RUN, *argv, cwd=trained)
    assert not (trained / RUN / "ledger").exists()
