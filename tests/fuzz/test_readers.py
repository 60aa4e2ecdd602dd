"""Every reader returns or raises one of holdfast's errors in one line, whatever is in its file, within its budget."""

import faulthandler
import mmap
import os
import pickle
import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.budget import VARIABLE
from holdfast.errors import LONGEST, DataError, HoldfastError
from tests.fuzz import series
from tests.fuzz.mutations import HOSTILE, edited
from tests.fuzz.series import Tally
from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.trial import READ, executed, limited_memory, prepared

SEARCHES = settings.get_current_profile_name() == "search"
SLOW = ("page", "resumed", "journal", "state", "recipe of a run")
"""Words in the names of readers that take tenths of a second."""


def examples(name):
    """How many mutants a reader gets: few in the default run."""
    return (200 if SEARCHES else 20) // (10 if any(word in name for word in SLOW) else 1)


@pytest.fixture(params=TARGETS)
def reader(request, tmp_path):
    with pytest.MonkeyPatch.context() as patched:
        for name in (VARIABLE, "RUST_BACKTRACE"):
            patched.setenv(name, "1")  # so that what fuzzing sets is taken back afterwards
        prepared(TARGETS[request.param], tmp_path)
        with limited_memory():
            yield request.param, TARGETS[request.param], tmp_path


@pytest.mark.filterwarnings("ignore")
def test_no_mutant_of_a_valid_file_breaks_a_reader(reader):
    name, target, place = reader
    seeds = list(target.seeds())

    @settings(max_examples=examples(name), suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**32 - 1))
    def check(seed):
        outcome = executed(target, place, target.mutant(random.Random(seed), seeds, seeds))
        assert not outcome.broken, outcome.detail

    check()


def test_messages_are_one_line_of_bounded_length():
    error = HoldfastError("expected a number;\n  got\r\nnothing\x85\u2028 " + 5000 * "x" + "; delete it")
    assert str(error).startswith("expected a number; got nothing ")
    assert str(error).endswith("xxx; delete it")
    assert len(str(error).splitlines()) == 1
    assert LONGEST - 10 < len(str(error)) <= LONGEST
    assert str(HoldfastError()) == ""


def test_hostile_values_are_not_changed_by_those_who_use_them():
    before = len(pickle.dumps(HOSTILE))
    for seed in range(300):
        tree, draw = {"a": [1, {"b": [2]}]}, random.Random(seed)
        for _ in range(4):
            tree = edited(tree, draw)
            tree = tree if isinstance(tree, dict) else {"a": [tree]}
    assert len(pickle.dumps(HOSTILE)) == before


def ends(content):
    """A reader with everything that a reader must not do."""
    if content.startswith(b"v"):
        return
    if content.startswith(b"r"):
        raise DataError("refused")
    if content.startswith(b"b"):
        raise KeyError("a bug")
    if content.startswith(b"m"):
        pages = mmap.mmap(-1, 60_000_000)  # fresh ones, which no freed memory of the process can stand for
        for place in range(0, len(pages), mmap.PAGESIZE):
            pages[place] = 1
    if content.startswith(b"a"):
        bytearray(10**13)
    if content.startswith(b"d"):
        faulthandler.disable()  # in this child, whose death is meant
        os.abort()


def broken(letters):
    class Of(Target):
        def mutant(self, draw, pool, fresh):
            return bytes([draw.choice(letters)]) + b" content"

    return Of("file", lambda: [b"valid"], lambda place: ends((place / "file").read_bytes()))


def run(letters, **options):
    import time

    return series.run(broken(letters), 0, until=time.monotonic() + 60, most=30, **options)


def test_what_a_reader_may_do_is_no_finding():
    tally = run(b"vr")
    assert (tally.executions, tally.broken) == (30, {})
    assert set(tally.outcomes) == {READ, "DataError outside"}
    assert isinstance(tally, Tally)
    assert tally.outcomes == Counter(tally.outcomes)


@pytest.mark.parametrize(
    ("letter", "outcome"),
    [("b", "KeyError"), ("m", "memory in read"), ("a", "MemoryError"), ("d", "death by SIGABRT")],
)
def test_bugs_allocations_and_deaths_are_findings_with_their_file(letter, outcome):
    tally = run(f"v{letter}".encode())
    assert tally.executions >= 30
    ((content, _),) = (finding for name, finding in tally.broken.items() if name.startswith(outcome))
    assert content == f"{letter} content".encode()
    assert tally.outcomes[READ] > 1
