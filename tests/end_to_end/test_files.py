"""Run directories that somebody has changed, that lead elsewhere, or where two processes work at once."""

import json
import multiprocessing
import os
import shutil
import subprocess
import sys

import pytest

from holdfast.runs import read_card
from tests.end_to_end.command import good, holdfast, refused
from tests.tampering import put
from tests.training.tiny import TEXT

RUN = "runs/tiny/seed-0"
CHECKED = TEXT + "checks: [clean, {gaussian_noise: 0.1}]\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("made")
    (path / "tiny.yaml").write_text(CHECKED)
    good("run", "tiny.yaml", cwd=path)
    return path


@pytest.fixture
def place(made, tmp_path):
    shutil.copytree(made, tmp_path / "place")
    return tmp_path / "place"


@pytest.mark.parametrize("name", ["ledger", "gallery", "verdicts"])
@pytest.mark.parametrize("verb", ["evaluate", "run", "report"])
def test_directories_that_are_links_are_not_followed(place, tmp_path, name, verb):
    other = tmp_path / "other"
    shutil.copytree(place / RUN, other)
    shutil.rmtree(place / RUN / name, ignore_errors=True)
    (other / name).mkdir(exist_ok=True)
    (place / RUN / name).symlink_to(other / name)
    before = {path: path.read_bytes() for path in other.rglob("*") if path.is_file()}
    line = refused(verb, "tiny.yaml" if verb == "run" else RUN, cwd=place)
    assert f"{RUN}/{name}: expected a regular file or directory, got a symbolic link" in line
    assert {path: path.read_bytes() for path in other.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["run.json", "recipe.yaml", "metrics.jsonl", "state.pt", "best.safetensors"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
@pytest.mark.timeout(60)
def test_files_that_are_links_or_pipes_are_not_read(place, tmp_path, name, kind):
    private = tmp_path / "private"
    private.write_text("private words")
    (place / RUN / name).unlink()
    make = os.mkfifo if kind == "pipe" else lambda path: path.symlink_to(private)
    make(place / RUN / name)
    for command in (["evaluate", RUN], ["report", RUN], ["run", "tiny.yaml"]):
        line = refused(*command, cwd=place)
        assert f"{RUN}/{name}: expected a regular file or directory, got a" in line
    assert private.read_text() == "private words"
    assert not any("private words" in page.read_text() for page in place.rglob("*.html"))


@pytest.mark.parametrize(
    "name", ["best.safetensors", "last.safetensors", "metrics.jsonl", "state.pt", "run.json", "recipe.yaml"]
)
def test_a_file_that_is_gone_is_named_and_nothing_is_trained_again(place, name):
    (place / RUN / name).unlink()
    line = refused("run", "tiny.yaml", cwd=place)
    assert f"{RUN}/{name}: was written and is missing; restore it, delete its lines in checksums.txt to" in line
    good("run", "tiny.yaml", "--fresh", cwd=place)
    good("run", "tiny.yaml", cwd=place)


@pytest.mark.parametrize("name", ["metrics.jsonl", "best.safetensors", "state.pt", "recipe.yaml", "run.json"])
@pytest.mark.parametrize("change", [lambda data: b"", lambda data: data[:-3], lambda data: data.replace(b"1", b"2", 1)])
def test_a_file_that_was_changed_is_named(place, name, change):
    file = place / RUN / name
    file.write_bytes(change(file.read_bytes()))
    line = refused("run", "tiny.yaml", cwd=place)
    assert f"{RUN}/{name}: " in line
    assert "damaged or changed" in line or "damaged or truncated" in line or "an empty file" in line


def test_what_a_killed_process_left_half_written_is_removed_by_the_next(place):
    left = [place / RUN / ".run.json.0123456789abcdef.tmp", place / RUN / "ledger" / ".part.0123456789abcdef.tmp"]
    for file in left:
        file.write_text("half")
    good("run", "tiny.yaml", cwd=place)
    assert not any(file.exists() for file in left)


READERS = (
    ("report", RUN, "--out", "page.html"),
    ("compare", RUN, "other"),
    ("select", RUN, "--by", "clean", "--accuracy", "0.5", "--within", "0.5"),
)


@pytest.mark.parametrize("change", ["deleted", "emptied", "changed"])
def test_epochs_that_are_gone_or_changed_are_named_by_all_who_show_them(place, change):
    shutil.copytree(place / RUN, place / "other")
    file = place / RUN / "metrics.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"" if change == "emptied" else lines[0])
    if change == "deleted":
        file.unlink()
    problem = "was written and is missing" if change == "deleted" else "damaged or changed since it was written"
    for argv in (*READERS, ("evaluate", RUN), ("run", "tiny.yaml")):
        assert f"{RUN}/metrics.jsonl: {problem}" in refused(*argv, cwd=place), argv
    assert not (place / "page.html").exists()


@pytest.mark.parametrize("pattern", ["run.json", "recipe.yaml", "ledger/*.parquet", "gallery/*.npz", "verdicts/*.json"])
def test_what_a_page_shows_and_is_gone_is_named_and_nothing_is_left_out(place, pattern):
    (place / "more.yaml").write_text(CHECKED.replace("[clean", "[{pgd: {threat: {linf: 0.1}, steps: 2}}, clean"))
    good("run", "more.yaml", cwd=place)
    shutil.copytree(place / RUN, place / "other")
    file = sorted((place / RUN).glob(pattern))[0]
    file.unlink()
    for argv in READERS:
        line = refused(*argv, cwd=place)
        assert f"{file.relative_to(place)}: was written and is missing; restore it" in line, argv
    assert not (place / "page.html").exists()


def test_rows_that_are_gone_are_measured_again(place):
    before = good("report", RUN, cwd=place), good("run", "tiny.yaml", cwd=place)
    part = sorted((place / RUN / "ledger").glob("*.parquet"))[0]
    part.unlink()
    assert good("run", "tiny.yaml", cwd=place) == before[1]
    assert part.exists()
    assert good("report", RUN, cwd=place) == before[0]


def test_best_weights_that_are_gone_are_named_and_results_of_them_stay(place):
    shutil.copytree(place / RUN, place / "other")
    before = [good(*argv, cwd=place) for argv in READERS]
    page = (place / "page.html").read_bytes()
    (place / RUN / "best.safetensors").unlink()
    for argv in (["run", "tiny.yaml"], ["train", "tiny.yaml"], ["evaluate", RUN], ["audit", RUN]):
        assert f"{RUN}/best.safetensors: was written and is missing" in refused(*argv, cwd=place)
    assert [good(*argv, cwd=place) for argv in READERS] == before  # their numbers are those of the best weights
    assert (place / "page.html").read_bytes() == page


@pytest.mark.parametrize(
    ("argv", "where"),
    [
        (("evaluate", RUN), RUN),
        (("report", RUN, "--out", "pages/page.html"), "pages"),
        (("report", RUN, "--headline", "pages/numbers.json"), "pages"),
        (("corrupt", "digits", "--out", "foggy", "--kinds", "fog", "--severities", "1", "--subset", "10"), "foggy"),
        (("data", "make", "pages/digits.npz", "--from", "digits"), "pages"),
        (("attack", RUN, "--attack", "fgsm", "--norm", "linf", "--eps", "0.1", "--save-npz", "pages/z.npz"), "pages"),
    ],
)
def test_what_a_killed_command_left_half_written_is_removed_by_the_next(place, argv, where):
    good(*argv, cwd=place)
    left = place / where / f".page.html.{'0' * 16}.tmp"
    left.write_text("half")
    if argv[0] == "data":
        (place / "pages/digits.npz").unlink()
    holdfast(*argv, cwd=place)
    assert not left.exists()


HOLD = """
import sys, time
from pathlib import Path
from holdfast.runs import read_card
from holdfast.runs import Run
with Run(Path(sys.argv[1])).lock():
    print("held", flush=True)
    time.sleep(600)
"""


def test_two_processes_do_not_work_on_one_run_and_a_killed_one_leaves_it_free(place):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(place / RUN)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        commands = [["run", "tiny.yaml"], ["train", "tiny.yaml", "--fresh"], ["evaluate", RUN], ["audit", RUN]]
        for command in [*commands, ["attack", RUN, "--attack", "fgsm", "--norm", "linf", "--eps", "0.1"]]:
            line = refused(*command, cwd=place)
            assert f"{RUN}: another holdfast works here (process {holder.pid} on " in line
        good("report", RUN, cwd=place)  # which only reads
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    good("run", "tiny.yaml", cwd=place)


def test_two_recipes_of_one_name_started_together_do_not_mix(tmp_path):
    for number, lr in enumerate((0.1, 0.2)):
        (tmp_path / f"{number}.yaml").write_text(CHECKED.replace("lr: 0.1", f"lr: {lr}"))
    command = [sys.executable, "-m", "holdfast", "train"]
    options = {"cwd": tmp_path, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen([*command, f"{number}.yaml"], **options) for number in (0, 1)]
    errors = [process.communicate(timeout=120)[1] for process in both]
    codes = [process.returncode for process in both]
    assert sorted(codes) == [0, 2]
    refusal = errors[codes.index(2)]
    assert "another holdfast works here" in refusal or "holds a run of another recipe" in refusal
    winner = codes.index(0)
    assert f"lr: {(0.1, 0.2)[winner]}" in (tmp_path / RUN / "recipe.yaml").read_text()
    assert holdfast("train", f"{winner}.yaml", cwd=tmp_path).code == 0


@pytest.mark.parametrize("races", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_of_two_recipes_that_race_for_a_run_one_wins_it_whole(tmp_path, races):
    fork = multiprocessing.get_context("fork")  # children of this warm process start at the same moment

    def take_part(here, number, start):
        start.wait()
        os._exit(holdfast("train", f"{number}.yaml", cwd=here).code or 0)

    for race in range(races):
        here, start = tmp_path / str(race), fork.Barrier(2)
        here.mkdir()
        for number, lr in enumerate((0.1, 0.2)):
            (here / f"{number}.yaml").write_text(CHECKED.replace("lr: 0.1", f"lr: {lr}"))
        rivals = [fork.Process(target=take_part, args=(here, number, start)) for number in (0, 1)]
        for rival in rivals:
            rival.start()
        for rival in rivals:
            rival.join()
        codes = [rival.exitcode for rival in rivals]
        assert sorted(codes) == [0, 2]
        lr = (0.1, 0.2)[codes.index(0)]
        assert f"lr: {lr}" in (here / RUN / "recipe.yaml").read_text()
        card = read_card(here / RUN)
        assert card.recipe.train.optimizer.lr == lr
        assert len((here / RUN / "metrics.jsonl").read_text().splitlines()) == card.recipe.train.epochs


def test_class_names_do_not_lead_out_of_a_directory(tmp_path):
    import numpy as np

    x = np.zeros((4, 8, 8), np.uint8)
    names = np.array(["../../x", str(tmp_path / "y")])
    np.savez(tmp_path / "bad.npz", x_test=x, y_test=np.array([0, 1, 0, 1]), class_names=names)
    (tmp_path / "in").mkdir()
    argv = ("corrupt", str(tmp_path / "bad.npz"), "--out", "out", "--kinds", "fog", "--format", "folder")
    good(*argv, "--severities", "1", cwd=tmp_path / "in")
    made = {path.name for path in (tmp_path / "in/out/fog-1").iterdir()}
    assert len(made) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"bad.npz", "in"}


def test_one_of_two_weights_is_enough_to_evaluate(place):
    (place / RUN / "last.safetensors").unlink()
    (place / RUN / "state.pt").unlink()
    assert "clean" in good("evaluate", RUN, cwd=place)


def test_a_run_that_names_another_does_not_touch_it(place):
    info = json.loads((place / RUN / "run.json").read_text())
    hostile = place / "hostile"
    put(hostile / "run.json", json.dumps({**info, "network": {"file": RUN, "data": {"source": "digits"}}}))
    before = {path: path.read_bytes() for path in (place / RUN).rglob("*") if path.is_file()}
    line = refused("evaluate", "hostile", "--fresh", cwd=place)
    assert f"hostile/run.json: network.file: expected a weights file; got '{RUN}'" in line
    assert {path: path.read_bytes() for path in (place / RUN).rglob("*") if path.is_file()} == before


def test_a_search_directory_with_links_is_refused(place):
    text = CHECKED.replace("lr: 0.1", "lr: {search: log, low: 0.01, high: 0.1}") + "search: {trials: 1}\n"
    (place / "found.yaml").write_text(
        text.replace("name: tiny", "name: found").replace("checks:", "evaluate: {}\nchecks:")
    )
    (place / "runs/found").mkdir()
    (place / "private").write_text("no end of line")
    (place / "runs/found/search.journal").symlink_to(place / "private")
    assert "search.journal: expected a regular file or directory" in refused("search", "found.yaml", cwd=place)
    assert (place / "private").read_text() == "no end of line"


@pytest.mark.parametrize("name", [".lock", ".lock-holder"])
def test_a_directory_where_the_lock_belongs_is_to_be_deleted(tmp_path, name):
    (tmp_path / "tiny.yaml").write_text(TEXT)
    (tmp_path / "runs/tiny/seed-0" / name).mkdir(parents=True)
    line = refused("train", "tiny.yaml", cwd=tmp_path)
    assert line == f"holdfast: runs/tiny/seed-0/{name}: expected a regular file, got a directory; delete it"
