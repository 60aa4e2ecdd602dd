"""Files appear whole or not at all, are read as they were written, and never through a link."""

import contextlib
import errno
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from holdfast import files
from holdfast.budget import VARIABLE
from holdfast.errors import CheckpointError, LedgerError
from holdfast.files import (
    CHECKSUMS,
    flushing,
    read_checked,
    read_regular,
    remove,
    replacing,
    safe_names,
    write_checked,
    write_together,
    writing,
)
from holdfast.models import read_state, write_weights


def names(path):
    return sorted(entry.name for entry in path.iterdir())


def interrupted(path):
    with replacing(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt


def test_an_error_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "file"
    for expected in ([], ["file"]):
        with pytest.raises(KeyboardInterrupt):
            interrupted(path)
        assert names(tmp_path) == expected
        path.write_bytes(b"old")
    assert path.read_bytes() == b"old"


def test_nothing_is_visible_under_the_final_name_before_it_is_on_disk(tmp_path, monkeypatch):
    path, seen, flush = tmp_path / "file", [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (seen.append(path.exists()), flush(handle)))
    with replacing(path) as file:
        file.write(b"whole")
        assert not path.exists()
        (temporary,) = tmp_path.iterdir()
        assert files.TEMPORARY.fullmatch(temporary.name)
    assert seen == [False, True]  # the file, and after the renaming its directory
    assert path.read_bytes() == b"whole"


@pytest.mark.parametrize("call", ["first", "second"])
def test_a_full_disk_names_the_file_and_leaves_the_old_one(tmp_path, monkeypatch, call):
    path, left = tmp_path / "file", {"first": 0, "second": 1}[call]
    write_checked(path, b"old")
    flush, calls = os.fsync, itertools.count()

    def full(handle):
        if next(calls) >= left:
            raise OSError(errno.ENOSPC, "No space left on device")
        flush(handle)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left") as caught:
            write_checked(path, b"new")
    assert caught.value.filename in (str(path), str(tmp_path / CHECKSUMS))
    assert read_checked(path) == b"old"
    assert names(tmp_path) == [CHECKSUMS, "file"]


@pytest.mark.parametrize("left", range(4))
def test_of_several_files_none_is_new_before_all_are_on_disk(tmp_path, monkeypatch, left):
    first, second = tmp_path / "first", tmp_path / "second"
    write_together({first: b"1", second: b"2"})
    flush, calls = os.fsync, itertools.count()

    def full(handle):
        if next(calls) >= left:
            raise OSError(errno.ENOSPC, "No space left on device")
        flush(handle)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write_together({first: b"3", second: b"4"})
    expected = [b"1", b"2"] if left < 3 else [b"3", b"4"]
    assert [read_checked(path) for path in (first, second)] == expected
    assert names(tmp_path) == [CHECKSUMS, "first", "second"]


def test_checksums_and_files_are_flushed_at_the_same_time(tmp_path, monkeypatch):
    meeting, flush, calls = threading.Barrier(3, timeout=30), os.fsync, itertools.count()

    def met(handle):
        if next(calls) < 3:  # checksums and two files; the directory comes later and alone
            meeting.wait()
        flush(handle)

    monkeypatch.setattr(os, "fsync", met)
    write_together({tmp_path / "first": b"1", tmp_path / "second": b"2"})
    assert [read_checked(tmp_path / name) for name in ("first", "second")] == [b"1", b"2"]


def test_files_are_flushed_one_by_one_where_the_interpreter_starts_no_threads(tmp_path, monkeypatch):
    def ending(*rest, **options):
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    flush, calls = os.fsync, itertools.count()
    monkeypatch.setattr(flushing, "ThreadPoolExecutor", ending)
    monkeypatch.setattr(os, "fsync", lambda handle: (next(calls), flush(handle)))
    write_checked(tmp_path / "file", b"whole")
    assert read_checked(tmp_path / "file") == b"whole"
    assert next(calls) == 3


def test_links_in_the_place_of_a_file_are_replaced_and_not_followed(tmp_path):
    private, path = tmp_path / "private", tmp_path / "run" / "file"
    private.write_bytes(b"private")
    path.parent.mkdir()
    path.symlink_to(private)
    write_checked(path, b"new")
    assert private.read_bytes() == b"private"
    assert not path.is_symlink()
    assert read_checked(path) == b"new"
    (path.parent / "other").symlink_to(private)
    with pytest.raises(LedgerError, match=r"other: expected a regular file, got a symbolic link"):
        read_regular(path.parent / "other")
    assert read_regular(path.parent / "other", follow=True) == b"private"


def test_checksums_are_not_appended_through_a_link(tmp_path):
    private = tmp_path / "private"
    private.write_bytes(b"private")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / CHECKSUMS).symlink_to(private)
    with pytest.raises(OSError, match="symbolic links"):
        write_checked(tmp_path / "run" / "file", b"new")
    assert private.read_bytes() == b"private"


@pytest.mark.parametrize(
    ("make", "what"), [(os.mkfifo, "a named pipe"), (os.mkdir, "a directory"), (lambda path: None, "No such file")]
)
@pytest.mark.timeout(10)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, make, what):
    make(tmp_path / "file")
    with pytest.raises(CheckpointError, match=f"file: expected a regular file, got {what}"):
        read_regular(tmp_path / "file", error=CheckpointError)


def test_special_files_and_links_of_a_directory_are_refused(tmp_path):
    write_checked(tmp_path / "ledger" / "part", b"rows")
    files.refuse_links(tmp_path)
    (tmp_path / "ledger" / "link").symlink_to(tmp_path)
    with pytest.raises(LedgerError, match=r"ledger/link: expected a regular file or directory, got a symbolic link"):
        files.refuse_links(tmp_path)
    (tmp_path / "ledger" / "link").unlink()
    write_checked(tmp_path / "a" / "b" / "c" / "part", b"rows")
    (tmp_path / "a" / "b" / "c" / "link").symlink_to("part")
    with pytest.raises(LedgerError, match=r"a/b/c/link: expected a regular file"):
        files.refuse_links(tmp_path)
    (tmp_path / "a" / "b" / "c" / "link").unlink()
    os.mkfifo(tmp_path / "run.json")
    with pytest.raises(LedgerError, match=r"run\.json: expected a regular file or directory, got a named pipe"):
        files.refuse_links(tmp_path)
    files.refuse_links(tmp_path / "nothing")


def test_every_flipped_bit_and_every_truncation_is_noticed(tmp_path):
    path, content = tmp_path / "file", bytes(range(40))
    write_checked(path, content)
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(LedgerError, match=r"file: damaged or changed since .*checksums\.txt; repeat"):
            read_checked(path, remedy="; repeat")
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(LedgerError, match="damaged or changed"):
            read_checked(path)
    path.write_bytes(content)
    assert read_checked(path) == content


def test_a_flipped_bit_in_the_checksums_never_lets_other_content_pass(tmp_path):
    path, journal = tmp_path / "file", tmp_path / CHECKSUMS
    write_checked(path, b"content")
    noted = journal.read_bytes()
    for bit in range(8 * len(noted)):
        damaged = bytearray(noted)
        damaged[bit // 8] ^= 1 << bit % 8
        journal.write_bytes(damaged)
        with contextlib.suppress(LedgerError):
            assert read_checked(path) == b"content"


def test_checksums_are_those_of_sha256sum(tmp_path):
    for name in ("a", "b.txt"):
        write_checked(tmp_path / name, name.encode())
    done = subprocess.run(["sha256sum", "-c", CHECKSUMS], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, ["a:", "OK", "b.txt:", "OK"])


def test_what_kills_may_have_left_is_accepted_and_what_was_never_written_is_not(tmp_path, monkeypatch):
    path = tmp_path / "file"
    for content in (b"1", b"2"):
        write_checked(path, content)
    with monkeypatch.context() as patched:
        patched.setattr(writing, "_temporary", None)  # killed again and again after the checksum was noted
        for content in (b"3", b"3", b"4"):
            with pytest.raises(TypeError):
                write_checked(path, content)
    assert read_checked(path) == b"2"
    path.write_bytes(b"5")
    with pytest.raises(LedgerError, match="damaged or changed"):
        read_checked(path)
    remove(path)
    write_checked(path, b"6")
    path.write_bytes(b"2")  # of a file that was removed
    with pytest.raises(LedgerError, match="damaged or changed"):
        read_checked(path)


def test_half_a_line_that_a_kill_left_spoils_nothing(tmp_path):
    write_checked(tmp_path / "a", b"a")
    with (tmp_path / CHECKSUMS).open("ab") as journal:
        journal.write(b"0" * 30)
    write_checked(tmp_path / "b", b"b")
    assert [read_checked(tmp_path / name) for name in "ab"] == [b"a", b"b"]
    (tmp_path / "b").write_bytes(b"c")
    with pytest.raises(LedgerError, match="damaged or changed"):
        read_checked(tmp_path / "b")


def test_files_of_versions_without_checksums_are_read(tmp_path):
    (tmp_path / "old").write_bytes(b"old")
    assert read_checked(tmp_path / "old") == b"old"
    write_checked(tmp_path / "new", b"new")
    assert read_checked(tmp_path / "old") == b"old"
    assert not files.is_missing(tmp_path / "old")


def test_what_was_written_and_is_gone_is_missing_unless_it_was_removed(tmp_path):
    path = tmp_path / "file"
    assert not files.is_missing(path)
    write_checked(path, b"content")
    assert not files.is_missing(path)
    path.unlink()
    assert files.is_missing(path)
    remove(path)
    assert not files.is_missing(path)
    write_checked(path, b"again")
    remove(path)
    assert (path.exists(), files.is_missing(path)) == (False, False)
    remove(tmp_path / "never")
    assert (tmp_path / CHECKSUMS).read_text().count("removed") == 2


def test_a_file_that_a_kill_kept_from_appearing_is_not_missing(tmp_path, monkeypatch):
    path = tmp_path / "file"
    with monkeypatch.context() as patched:
        patched.setattr(writing, "_temporary", None)  # killed after the checksum was noted
        with pytest.raises(TypeError):
            write_checked(path, b"content")
    assert not files.is_missing(path)
    assert files.missing_files(tmp_path) == []
    write_checked(path, b"content")
    path.unlink()
    assert files.is_missing(path)
    assert files.missing_files(tmp_path) == [path]


def test_a_file_that_a_kill_kept_from_being_noted_is_noted_by_the_next_process(tmp_path):
    path, journal = tmp_path / "ledger" / "part", tmp_path / "ledger" / CHECKSUMS
    write_checked(path, b"content")
    journal.write_text("".join(line for line in journal.read_text().splitlines(keepends=True) if line[0] != "#"))
    files.tidy(tmp_path)
    files.tidy(tmp_path)
    assert journal.read_text().count("# written  part") == 1
    path.unlink()
    assert files.is_missing(path)


def test_another_directory_of_the_same_name_has_checksums_of_its_own(tmp_path):
    for content in (b"first", b"other"):
        write_checked(tmp_path / "run" / "file", content)
        assert read_checked(tmp_path / "run" / "file") == content
        (tmp_path / "run" / "file").write_bytes(b"damage")
        with pytest.raises(LedgerError):
            read_checked(tmp_path / "run" / "file")
        for file in (tmp_path / "run").iterdir():
            file.unlink()


LEFT = """
import os, signal, sys
from pathlib import Path
from holdfast.files import replacing
with replacing(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_kill_left_half_written_is_removed(tmp_path):
    done = subprocess.run([sys.executable, "-c", LEFT, str(tmp_path / "ledger" / "part")], timeout=60)
    assert done.returncode == -signal.SIGKILL
    (left,) = (tmp_path / "ledger").iterdir()
    for other in (".notes.tmp", "file.tmp"):
        (tmp_path / other).write_text("mine")
    files.tidy(tmp_path)
    assert not left.exists()
    assert names(tmp_path) == [".notes.tmp", "file.tmp", "ledger"]


def test_what_a_living_process_writes_and_what_is_no_file_of_ours_stays(tmp_path):
    name = f".page.{'0' * 16}.tmp"
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / name).symlink_to(tmp_path / "private")
    (tmp_path / "private").write_text("mine")
    (tmp_path / "directory" / name).mkdir(parents=True)
    (tmp_path / "directory" / name.upper()).write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with replacing(tmp_path / "page") as file:
        (written,) = set(tmp_path.rglob("*")) - set(before)
        for below in (tmp_path, tmp_path / "link", tmp_path / "directory"):
            files.remove_temporary(below)
        assert set(tmp_path.rglob("*")) == {*before, written}
        file.write(b"whole")
    assert (tmp_path / "page").read_bytes() == b"whole"
    assert set(tmp_path.rglob("*")) == {*before, tmp_path / "page"}


def test_what_a_kill_left_is_removed_where_the_next_file_is_written(tmp_path):
    left = tmp_path / f".page.{'0' * 16}.tmp"
    left.write_text("half")
    with replacing(tmp_path / "other") as file:
        file.write(b"whole")
    assert names(tmp_path) == ["other"]


def test_a_file_that_another_process_removed_before_it_was_locked_is_made_again(tmp_path, monkeypatch):
    lock, removed = writing._lock, []

    def late(handle, *flags):
        if not removed:
            removed.extend(tmp_path.iterdir())
            removed[0].unlink()
        return lock(handle, *flags)

    monkeypatch.setattr(writing, "_lock", late)
    with replacing(tmp_path / "page") as file:
        file.write(b"whole")
    assert len(removed) == 1
    assert (tmp_path / "page").read_bytes() == b"whole"
    assert names(tmp_path) == ["page"]


@pytest.mark.parametrize("call", ["open", "replace"])
def test_errors_name_the_file_and_not_the_temporary_one(tmp_path, monkeypatch, call):
    path = tmp_path / "page"

    def failing(*rest, **options):
        raise PermissionError(errno.EACCES, "Permission denied", rest[0], None, "second")

    monkeypatch.setattr(os, call, failing)
    with pytest.raises(PermissionError) as caught, replacing(path) as file:
        file.write(b"whole")
    assert (caught.value.filename, caught.value.filename2) == (str(path), None)


def test_names_of_the_greatest_length_are_written(tmp_path):
    for name in ("x" * 255, "é" * 127):
        write_checked(tmp_path / name, b"content")
        assert read_checked(tmp_path / name) == b"content"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["cat", "dog"], ["cat", "dog"]),
        (["../../x", "/etc/x", "..", "."], ["_.._x", "_etc_x", "__1", "__2"]),
        (["a/b", "a b", "A:B"], ["a_b", "a_b_1", "A_B_2"]),
        (["", "-rf", ".hidden", "été"], ["__1", "rf", "hidden", "été"]),
        (["x\0y\n", "\u202ecod.exe"], ["x_y_", "_cod.exe"]),
    ],
)
def test_foreign_strings_become_names_inside_a_directory(texts, expected):
    assert safe_names(texts) == expected


def test_names_are_different_whatever_the_strings():
    draw = random.Random(0)
    texts = ["".join(draw.choices("aA/._ 1\0", k=draw.randrange(5))) for _ in range(300)] + [
        "a_1",
        "a_1",
        "x" * 200,
    ] * 2
    made = safe_names(texts)
    assert len({name.casefold() for name in made}) == len(texts)
    assert all(name == os.path.basename(name) and name not in ("", ".", "..") and len(name) < 100 for name in made)


# A loss of power: what is on disk is what was flushed, and any part of what was not.


class Disk:
    """Operations on files in order, to see what a loss of power after any of them may leave."""

    def __init__(self, monkeypatch, root):
        self.root, self.log, self.paths = root, [], {}
        real_open, real_fsync, real_replace = os.open, os.fsync, os.replace

        def opened(path, flags, *rest, **options):
            handle = real_open(path, flags, *rest, **options)
            self.paths[handle] = os.fspath(path)
            return handle

        def flushed(handle):
            real_fsync(handle)
            path = self.paths[handle]
            self.log.append(("flush", path, None if os.path.isdir(path) else Path(path).read_bytes()))

        def replaced(source, target, **options):
            self.log.append(("rename", os.fspath(source), os.fspath(target)))
            real_replace(source, target, **options)

        monkeypatch.setattr(os, "open", opened)
        monkeypatch.setattr(os, "fsync", flushed)
        monkeypatch.setattr(os, "replace", replaced)

    def left(self, before, cut, lucky):
        """Names and contents after the first `cut` operations; with `lucky`, renames are on disk at once."""
        durable, contents, waiting = dict(before), {}, []
        for what, first, second in self.log[:cut]:
            if what == "flush" and second is not None:
                contents[first] = second
                if first in durable or first.endswith(CHECKSUMS):
                    durable[first] = second
            elif what == "rename":
                waiting.append((first, second))
            if (what == "flush" and second is None) or lucky:
                for source, target in waiting:
                    durable[target] = contents.get(source, b"")  # a rename before its content leaves an empty file
                waiting = []
        return durable


@pytest.mark.parametrize("lucky", [False, True])
def test_a_loss_of_power_leaves_the_old_file_or_the_new_one(tmp_path, monkeypatch, lucky):
    root = tmp_path / "run"
    write_checked(root / "file", b"old")
    before = {str(path): path.read_bytes() for path in root.iterdir()}
    with monkeypatch.context() as patched:
        disk = Disk(patched, root)
        write_checked(root / "file", b"new")
        write_checked(root / "file", b"newer")
    assert len(disk.log) == 8
    seen = []
    for number in range(len(disk.log) + 1):
        place = tmp_path / f"after-{number}"
        place.mkdir()
        for path, content in disk.left(before, number, lucky).items():
            (place / os.path.basename(path)).write_bytes(content)
        seen.append(read_checked(place / "file"))
    assert [content for content, _ in itertools.groupby(seen)] == [b"old", b"new", b"newer"]


@pytest.mark.parametrize("lucky", [False, True])
def test_a_loss_of_power_leaves_each_of_several_files_old_or_new(tmp_path, monkeypatch, lucky):
    first, second = tmp_path / "run" / "first", tmp_path / "run" / "second"
    write_together({first: b"1", second: b"2"})
    before = {str(path): path.read_bytes() for path in first.parent.iterdir()}
    with monkeypatch.context() as patched:
        disk = Disk(patched, first.parent)
        write_together({first: b"3", second: b"4"})
    assert len(disk.log) == 6  # checksums, two files, two renames, directory
    for number in range(len(disk.log) + 1):
        place = tmp_path / f"after-{number}"
        place.mkdir()
        for path, content in disk.left(before, number, lucky).items():
            (place / os.path.basename(path)).write_bytes(content)
        left = read_checked(place / "first"), read_checked(place / "second")
        assert left in {(b"1", b"2"), (b"3", b"2"), (b"3", b"4")}


def a_link(path):
    path.parent.joinpath("private").write_text("secret")
    path.symlink_to("private")


@pytest.mark.parametrize("make", [a_link, os.mkfifo, os.mkdir])
def test_checksums_that_are_no_regular_file_are_refused_beside_a_file_that_the_user_names(tmp_path, make):
    path = tmp_path / "best.safetensors"
    write_weights(path, {"a": torch.zeros(2)}, {})
    (tmp_path / CHECKSUMS).unlink()
    make(tmp_path / CHECKSUMS)
    with pytest.raises(
        CheckpointError, match=r"checksums\.txt: expected a regular file with checksums, got a"
    ) as caught:
        read_state(path)
    assert "secret" not in str(caught.value)
    assert str(caught.value).endswith("delete it, or copy best.safetensors to another directory")


def test_files_larger_than_the_budget_are_not_read(tmp_path, monkeypatch):
    with (tmp_path / "file").open("wb") as file:
        file.truncate(10**12)  # a hole: it takes no room on disk
    monkeypatch.setenv(VARIABLE, "5M")
    with pytest.raises(LedgerError, match=r"file: needs 1 TB of memory, more than the budget of 5 MB"):
        read_checked(tmp_path / "file")


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000])
def test_names_that_no_file_can_have_are_one_line(tmp_path, name):
    with pytest.raises(CheckpointError, match="expected"):
        read_state(tmp_path / name)
    with pytest.raises(LedgerError, match="expected"):
        read_regular(tmp_path / name)
