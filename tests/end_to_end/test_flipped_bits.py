"""One flipped bit in what a run reads back: never another result, and never the end of the interpreter."""

import os
import random

import pytest

from holdfast.errors import HoldfastError
from holdfast.models import read_state
from holdfast.runs import Run, load_model
from holdfast.training.checkpoint import load_state
from tests.end_to_end.command import good, refused
from tests.training.tiny import TEXT

RUN = "runs/tiny/seed-0"
FILES = {
    "a part of the ledger": (lambda run: run.ledger.parts()[0], lambda run, file: run.ledger.part(file.stem)),
    "weights": (lambda run: run.weights("best"), lambda run, file: read_state(file)),
    "last weights": (lambda run: run.weights("last"), lambda run, file: read_state(file)),
    "training state": (lambda run: run.state, lambda run, file: load_state(file)),
    "run.json": (lambda run: run.info_file, lambda run, file: run.info()),
}
"""The files, and what reads them."""

COMMANDS = (("run", "tiny.yaml"), ("evaluate", RUN), ("report", RUN))
UNREAD = {
    ("evaluate", RUN): ("last weights", "training state"),
    ("report", RUN): ("weights", "last weights", "training state"),
}
"""What a command has no need to read."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("place")
    (place / "tiny.yaml").write_text(TEXT.replace("hidden: [8]", "hidden: [2]") + "checks: [clean]\n")
    good("run", "tiny.yaml", cwd=place)
    return place


def flipped(file, bits):
    """Flip one bit after the other; each is back before the next, and at the end."""
    content = file.read_bytes()
    with file.open("r+b") as opened:
        for bit in bits:
            at = bit // 8
            try:
                os.pwrite(opened.fileno(), bytes([content[at] ^ 1 << bit % 8]), at)
                yield bit
            finally:
                os.pwrite(opened.fileno(), content[at : at + 1], at)


def refusal(read, *arguments):
    """What a reader says that refuses; empty where it does not. Any other error passes through."""
    try:
        read(*arguments)
    except HoldfastError as error:
        return str(error)
    return ""


def chosen(file, share):
    """A share of all bits, at random."""
    bits = range(8 * file.stat().st_size)
    return bits if share == 1 else random.Random(0).sample(bits, round(share * len(bits)))


EXHAUSTIVE = pytest.param(1, marks=pytest.mark.slow, id="all")


@pytest.mark.parametrize("share", [pytest.param(0.01, id="some"), EXHAUSTIVE])
@pytest.mark.parametrize("name", FILES)
@pytest.mark.timeout(600)
def test_every_flipped_bit_is_named_with_its_file(place, name, share):
    run = Run(place / RUN)
    find, read = FILES[name]
    file = find(run)
    unnamed = [bit for bit in flipped(file, chosen(file, share)) if f"{file}: " not in refusal(read, run, file)]
    assert unnamed == []
    assert refusal(read, run, file) == ""


@pytest.mark.parametrize("share", [pytest.param(0.01, id="some"), EXHAUSTIVE])
@pytest.mark.timeout(600)
def test_a_flipped_bit_in_the_header_of_weights_is_an_error_of_ours_or_changes_nothing(place, share):
    run = Run(place / RUN)
    file = run.weights("best")
    texts = {refusal(run.labels) for _ in flipped(file, chosen(file, share))}
    assert all(text == "" or f"{file}: " in text for text in texts)


@pytest.mark.parametrize("name", FILES)
def test_networks_and_commands_refuse_a_flipped_bit(place, name):
    file = FILES[name][0](Run(place / RUN))
    for _ in flipped(file, random.Random(1).sample(range(8 * file.stat().st_size), 8)):
        for argv in COMMANDS:
            if name not in UNREAD.get(argv, ()):
                assert str(file.relative_to(place)) in refused(*argv, cwd=place)
        if name == "weights":
            with pytest.raises(HoldfastError):
                load_model(place / RUN)
    for argv in COMMANDS:
        good(*argv, cwd=place)
