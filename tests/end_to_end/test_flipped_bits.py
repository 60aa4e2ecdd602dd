"""One flipped bit in what a run reads back: never another result, and never the end of the interpreter."""

import hashlib
import os
import random
import time

import pytest
import torch

from holdfast import load_run
from holdfast.errors import HoldfastError
from holdfast.models import read_metadata, read_state, write_weights
from holdfast.runs import Run, load_model, read_card
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
    ("evaluate", RUN): ("training state",),
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
@pytest.mark.parametrize("label", ["best", "last"])
@pytest.mark.timeout(600)
def test_no_header_of_weights_is_believed_before_its_checksum_fits(place, label, share):
    run = Run(place / RUN)
    file = run.weights(label)
    for read in (run.labels, lambda: read_card(file), lambda: load_run(place / RUN).recipe):
        assert {f"{file}: " in refusal(read) for _ in flipped(file, chosen(file, share))} == {True}
        assert refusal(read) == ""


def test_a_changed_digit_of_the_recipe_in_weights_is_no_other_recipe(place):
    file = Run(place / RUN).weights("last")
    digit = 8 * (file.read_bytes().index(b"epochs: 2") + len("epochs: "))
    for _ in flipped(file, [digit]):
        assert b"epochs: 3" in file.read_bytes()
        assert "last.safetensors: damaged or changed since it was written" in refused("show", RUN, cwd=place)
    assert "epochs: 2" in good("show", RUN, cwd=place)


def test_a_settled_file_is_hashed_once_until_it_changes(tmp_path, monkeypatch):
    file, hashed = tmp_path / "best.safetensors", []
    write_weights(file, {"a": torch.ones(3)}, {"recipe": "a: 1"})
    digest = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *args: hashed.append(1) or digest(*args))
    read_metadata(file)
    read_metadata(file)
    assert len(hashed) == 2  # just written, it may change again at the same time
    monkeypatch.setattr("holdfast.files.checked.SETTLED", -(10**12))
    for _ in range(3):
        assert read_metadata(file) == {"recipe": "a: 1"}
    read_state(file)
    assert len(hashed) == 3
    time.sleep(0.05)  # so that its times differ, as those of a settled file do
    for _ in flipped(file, [80]):
        assert "damaged or changed" in refusal(read_metadata, file)
        assert "damaged or changed" in refusal(read_state, file)


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
