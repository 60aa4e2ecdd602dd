"""Questions about the networks of a run; stored answers are not measured again."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from holdfast import data, files
from holdfast.checks import Check
from holdfast.conduct.ready import Ready, to_device
from holdfast.data.dataset import Split
from holdfast.errors import ModelError
from holdfast.evaluation.subject import Subject, place, try_out
from holdfast.halving import BatchSize, Halved
from holdfast.questions.answers import WITHOUT_NETWORK, Answer, AnswerKey, Store
from holdfast.questions.asking import BLOCK, Inquiry, answer_of, ask, digest_of, prepare
from holdfast.questions.question import Companion, Context, Question
from holdfast.recipe import plain
from holdfast.recipe.foreign import KEY, place_and_fields
from holdfast.recipe.plain import describe
from holdfast.runs.code import TrustedCode
from holdfast.runs.networks import fits
from holdfast.runs.weights import load_model
from holdfast.yaml_text import load_mapping

BATCH = 64
"""Images of a forward pass: questions take gradients, and need more memory than checks."""


@dataclass(frozen=True)
class Asking:
    """A question under way.

    Args:
        run: name of the network's run.
        question: its name.
        done: examples or records.
        total: what `done` will be.
        halved: what became of the number of images at once, where memory ran out.
    """

    run: str
    question: str
    done: int
    total: int
    halved: Halved | None = None

    def __str__(self) -> str:
        return f"{self.question.replace('_', '-')} {self.run}  {self.done} of {self.total} done"


def ask_about(
    ready: Ready,
    question: Question,
    split: Split | None = None,
    *,
    batch_size: int | None = None,
    trust: TrustedCode = False,
) -> Generator[Asking, None, Answer]:
    """Ask about the network that matters most of those that are ready, or about the data where none is needed.

    Args:
        ready: the run.
        question: what to ask.
        split: about which images; None for all test images.
        batch_size: images of a forward pass.
        trust: which factories of other networks may be called.

    Returns:
        The answer, also where it was stored before.
    """
    subject = ready.subjects[0] if question.needs.network else _without_network(ready)
    name, settings = named(plain(question, Question))
    images = split or ready.splits.test
    prepared = prepare(question, _context(ready, subject, images, trust=trust))
    if prepared.examples is not None and prepared.examples < len(images):
        images = data.subset(images, prepared.examples, ready.splits.test_seed)
    key = AnswerKey(
        question=name, settings={**settings, **prepared.settings}, weights=subject.weights,
        weights_hash=subject.hash[:12], seed=ready.seed, examples=len(images), images=digest_of(images),
        block=min(ready.how.block, prepared.block or BLOCK),
    )  # fmt: skip
    inquiry = Inquiry(
        measurement=prepared.measurement, key=key, model=subject.model, run=subject.run, split=images,
        where=place(subject.model), batch_size=batch_size or BATCH,
    )  # fmt: skip
    store, at_once = Store(ready.run.path), BatchSize(inquiry.batch_size)
    for done, total in ask(inquiry, store, at_once):
        yield Asking(subject.run, name, done, total, at_once.news())
    return answer_of(inquiry, store, tuple(ready.splits.classes))


def named(value: Any) -> tuple[str, dict[str, Any]]:
    """Name and fields of a question as a recipe has it; the name of third-party code is its import path."""
    ((name, fields),) = value.items() if isinstance(value, dict) else ((value, {}),)
    if name == KEY:
        return place_and_fields(fields)[0], dict(place_and_fields(fields)[1])
    return name, dict(fields or {})


def _without_network(ready: Ready) -> Subject:
    """In the place of a network, for questions that need none."""

    def no_network(x: Tensor) -> Tensor:
        raise ModelError("a question that needs no network called one")

    return Subject(no_network, str(ready.run.info().get("name") or ready.run.path.name), WITHOUT_NETWORK)


def _context(ready: Ready, subject: Subject, split: Split, *, trust: TrustedCode) -> Context:
    splits = ready.splits

    def load(path: Path) -> Companion:
        loaded = load_model(path, trust=trust)
        fits(loaded.card, splits)
        try_out(loaded.model, splits.test, len(splits.classes))
        to_device(loaded.model, ready.device)
        return Companion(loaded.model.eval(), loaded.card.recipe.name, loaded.card.hash[:12])

    return Context(
        model=subject.model, weights_hash=subject.hash[:12], recipe=_recipe(ready), checks=ready.checks, test=split,
        train=splits.train, classes=splits.classes, seed=ready.seed, load=load,
        describe=partial(describe, kind=Check),
    )  # fmt: skip


def _recipe(ready: Ready) -> dict[str, Any]:
    """The recipe that the network was trained with; empty for a network from elsewhere."""
    file = ready.run.path / "recipe.yaml"
    return load_mapping(files.read_checked(file), str(file)) if file.exists() else {}
