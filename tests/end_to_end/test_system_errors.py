"""Full and read-only disks, files that disappear, names that are too long: one line each, and the work goes on."""

import errno
import os
import pkgutil
import shutil

import pytest

from holdfast.results import Ledger
from tests.end_to_end.command import good, holdfast, refused
from tests.tampering import put
from tests.training.tiny import TEXT

RUN = "runs/tiny/seed-0"
CHECKED = TEXT + "checks: [clean, {gaussian_noise: 0.1}]\n"
SELECT = ["select", RUN, "--by", "clean", "--accuracy", "0.5"]
RESUME = "everything done before is saved, repeat the same command to resume"


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


def broken(monkeypatch, name, error, *, after=0):
    """Let a call of the system fail that makes or changes files, but for the first few."""
    call, calls = getattr(os, name), []

    def failing(path, *rest, **options):
        if name != "open" or (rest and rest[0] & os.O_CREAT):
            calls.append(path)
            if len(calls) > after:
                raise error
        return call(path, *rest, **options)

    monkeypatch.setattr(os, name, failing)


NUMBERS = (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(("name", "after"), [("open", 0), ("open", 3), ("fsync", 4), ("replace", 2), ("mkdir", 0)])
@pytest.mark.parametrize("number", NUMBERS)
def test_a_call_that_fails_is_one_line_that_says_how_to_resume(tmp_path, monkeypatch, number, name, after, named):
    (tmp_path / "tiny.yaml").write_text(CHECKED)
    error = OSError(number, os.strerror(number), *(["runs/x"] if named else []))
    with monkeypatch.context() as patched:
        broken(patched, name, error, after=after)
        line = refused("run", "tiny.yaml", cwd=tmp_path)
    assert os.strerror(number) in line
    assert line.endswith(RESUME)
    assert not list(tmp_path.rglob("*.tmp"))
    good("run", "tiny.yaml", cwd=tmp_path)


def test_an_error_of_the_system_without_a_number_or_a_name_is_one_line(place, monkeypatch):
    broken(monkeypatch, "fsync", OSError("strange\nlines"))
    assert refused("report", RUN, cwd=place) == f"holdfast: {RUN}/report.html: strange lines"


def test_a_report_on_a_read_only_disk_names_the_page_and_the_remedy(place, monkeypatch):
    broken(monkeypatch, "open", OSError(errno.EROFS, "Read-only file system", "x"))
    line = refused("report", RUN, cwd=place)
    remedy = "make it writable, or choose another directory"
    assert line == f"holdfast: {RUN}/report.html: Read-only file system; {remedy}"


@pytest.mark.parametrize(
    "argv",
    [
        ("report", RUN, "--out", "x" * 300),
        ("compare", RUN, "other", "--out", "x" * 300),
        ("run", "tiny.yaml", "--out", "x" * 300),
        ("run", "x" * 300),
        ("run", "tiny.yaml", "--set", f"name={'x' * 300}"),
        ("corrupt", "digits", "--out", "x" * 300),
        ("evaluate", "x" * 300),
        ("data", "make", f"{'x' * 300}.npz", "--from", "digits"),
    ],
)
def test_a_name_that_is_too_long_is_one_line(place, argv):
    shutil.copytree(place / RUN, place / "other")
    line = refused(*argv, cwd=place)
    assert "xxx" in line
    assert RESUME not in line


def test_a_name_of_the_greatest_length_is_written(place):
    name = "é" * 125 + ".html"
    good("report", RUN, "--out", name, cwd=place)
    assert (place / name).stat().st_size


@pytest.mark.parametrize("what", ["run.json", "."])
def test_what_disappears_at_work_is_named_and_nothing_is_made_up_in_its_place(tmp_path, monkeypatch, what):
    (tmp_path / "tiny.yaml").write_text(CHECKED)
    append = Ledger.append

    def vanishing(ledger, *rest):
        append(ledger, *rest)
        gone = ledger.path.parent / what
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink(missing_ok=True)

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "append", vanishing)
        line = refused("run", "tiny.yaml", cwd=tmp_path)
    assert RUN in line
    assert what == "." or f"{RUN}/run.json: was written and is missing" in line
    assert not (tmp_path / RUN / "report.html").exists()
    good("run", "tiny.yaml", "--fresh", cwd=tmp_path)


@pytest.mark.parametrize(
    ("owner", "name"),
    [("holdfast.conduct.runs", "subjects_of"), ("holdfast.training.checkpoint.TrainingFiles", "flush")],
)
def test_a_directory_that_disappears_after_training_is_named(tmp_path, monkeypatch, owner, name):
    (tmp_path / "tiny.yaml").write_text(CHECKED + "analyses: [gradient_norm]\n")
    method = pkgutil.resolve_name(f"{owner}.{name}")

    def vanish():
        if (tmp_path / RUN / "best.safetensors").exists():
            shutil.rmtree(tmp_path / RUN)

    def vanishing(*rest, **options):
        if name == "subjects_of":
            vanish()
            return method(*rest, **options)
        method(*rest, **options)
        return vanish()

    with monkeypatch.context() as patched:
        patched.setattr(f"{owner}.{name}", vanishing)
        line = refused("run", "tiny.yaml", cwd=tmp_path)
    assert f"{RUN}: expected a run with best.safetensors or last.safetensors; got neither" in line
    good("run", "tiny.yaml", cwd=tmp_path)


def test_epochs_that_are_no_text_are_named(place):
    put(place / RUN / "metrics.jsonl", b'{"epoch": 1}\n{"epoch": "\xff"}\n')
    for argv in (["report", RUN], ["run", "tiny.yaml"], ["evaluate", RUN], SELECT):
        assert f"{RUN}/metrics.jsonl: cannot be read as text" in refused(*argv, cwd=place)


def test_an_interruption_while_directories_are_claimed_says_how_to_resume(tmp_path, monkeypatch):
    (tmp_path / "tiny.yaml").write_text(CHECKED)

    def interrupted(run, recipe):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("holdfast.runs.Run.claim", interrupted)
        done = holdfast("run", "tiny.yaml", cwd=tmp_path)
    assert done.code == 130
    assert done.err == "holdfast: interrupted; everything done is saved, repeat the same command to resume\n"
