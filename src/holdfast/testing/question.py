"""What every question promises, as functions of a question.

`check_question(question, model, split)` tries all of it: each broken promise is an `AssertionError` that names it.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import torch
from torch import nn

from holdfast.checks import Check
from holdfast.data.dataset import Split
from holdfast.questions.answers import COMMON, Answer, AnswerKey, Answers, Store
from holdfast.questions.asking import Inquiry, answer_of, ask, digest_of, prepare
from holdfast.questions.docs import fields, summary
from holdfast.questions.promises import broken_question
from holdfast.questions.question import Companion, Context, Needs, PerExample, Question
from holdfast.recipe.plain import describe
from holdfast.show.html import parts_of
from holdfast.show.items import Item
from holdfast.show.plain import to_plain
from holdfast.show.table import Table
from holdfast.show.terminal import rich_table
from holdfast.testing.trial import try_promises
from holdfast.testing.untouched import same_module, same_random_states

IMAGES = 16
"""On which a question is tried at most: promises are tried many times, in blocks of 4."""

TOLERANCE = 1e-9
"""How far numbers of two batch sizes may differ in float64, relative to their size and absolutely."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A question with a network and images on which to try it.

    Args:
        question: the question, with fields that make it quick.
        model: a network in float64.
        split: at least 7 images that the network takes.
        train: training images, for questions that look at them.
        checks: checks of the run, for questions that take their attack from them.
        companion: another network, for questions about several.
    """

    question: Question
    model: nn.Module
    split: Split
    train: Split | None = None
    checks: Sequence[Any] = ()
    companion: nn.Module | None = None

    def inquiry(self, batch_size: int = 3) -> Inquiry:
        """The question, ready to be measured in blocks of 4."""
        classes = tuple(map(str, range(int(self.split.y.max()) + 1)))
        context = Context(
            model=self.model, weights_hash="0", recipe={}, checks=self.checks, test=self.split, train=self.train,
            classes=classes, seed=1, load=lambda path: Companion(self.companion or self.model, str(path), "1"),
            describe=partial(describe, kind=Check),
        )  # fmt: skip
        prepared = prepare(self.question, context)
        key = AnswerKey(
            question="tried", settings={**dataclasses.asdict(self.question), **prepared.settings},  # type: ignore[call-overload]
            weights="best", weights_hash="0", seed=1, examples=len(self.split), images=digest_of(self.split),
            block=min(4, prepared.block or 4),
        )  # fmt: skip
        where = next(self.model.parameters()).detach().new_empty(0)
        return Inquiry(
            measurement=prepared.measurement, key=key, model=self.model, run="run", split=self.split, where=where,
            batch_size=batch_size,
        )  # fmt: skip


def check_question(question: Question, model: nn.Module, split: Split, **around: Any) -> None:
    """Try every promise on one question and the first images; further arguments are those of `Trial`.

    Raises:
        AssertionError: naming the first promise that it breaks.
    """
    problem = broken_question(question)
    assert problem is None, problem
    few = split.select(torch.arange(min(IMAGES, len(split))))
    try_promises(Question, question, CHECKS, of=Trial(question=question, model=model, split=few, **around))


def check_documented(trial: Trial) -> None:
    """The docstring states what is measured and describes every field; columns or axes are named."""
    kind = type(trial.question)
    assert summary(kind).endswith("."), "the first line of the docstring is no sentence"
    names = {each.name for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    assert set(fields(kind)) == names, f"the docstring describes {sorted(fields(kind))}, the fields are {sorted(names)}"
    assert isinstance(kind.title, str), "title: expected a heading"
    assert kind.title, "title: expected a heading"
    assert isinstance(kind.needs, Needs), "needs: expected one of Needs"
    measurement = trial.inquiry().measurement
    named = measurement.columns if isinstance(measurement, PerExample) else measurement.axes
    assert named is not None, "columns or axes: expected names"


def check_frozen(trial: Trial) -> None:
    """A question is only its fields: it compares, hashes and cannot be changed."""
    copy = dataclasses.replace(trial.question)  # type: ignore[type-var]
    assert copy == trial.question, "a copy is not equal"
    assert hash(copy) == hash(trial.question), "a copy has another hash"


def check_names_its_columns(trial: Trial) -> None:
    """Rows have exactly the columns that the question names, one value for each example."""
    measurement = trial.inquiry().measurement
    if isinstance(measurement, PerExample):
        rows = measured(trial).rows
        assert rows["example"].to_list() == sorted(trial.split.index.tolist()), "expected every example once, in order"


def check_same_answer_for_any_batch_size(trial: Trial) -> None:
    """Batches of 1, 3 and all agree up to rounding in float64."""
    first = measured(trial, batch_size=1)
    for size in (3, len(trial.split)):
        same_answers(first, measured(trial, batch_size=size))


def check_same_answer_in_any_order(trial: Trial) -> None:
    """Images in another order have the same rows."""
    order = torch.arange(len(trial.split)).flip(0)
    turned = dataclasses.replace(trial, split=trial.split.select(order))
    if isinstance(trial.inquiry().measurement, PerExample):
        assert measured(trial).rows.equals(measured(turned).rows), "rows depend on the order of the images"


def check_same_bits_after_a_kill(trial: Trial) -> None:
    """An answer that is interrupted after every step and taken up again has the bits of an undisturbed one."""
    whole = measured(trial)
    with tempfile.TemporaryDirectory() as place:
        store, inquiry = Store(Path(place)), trial.inquiry()
        while stored(store, inquiry) < max(len(whole.rows), len(whole.records)):
            before = stored(store, inquiry)
            for _ in ask(inquiry, store):
                if stored(store, inquiry) > before:
                    break
            assert stored(store, inquiry) > before, "repeating an interrupted question measures nothing"
        resumed = answer_of(inquiry, store)
    assert resumed.records == whole.records, "records differ after an interruption"
    assert resumed.rows.equals(whole.rows), "rows differ after an interruption"


def stored(store: Store, inquiry: Inquiry) -> int:
    """How many examples or records a store holds."""
    answer = store.read(inquiry.key)
    return max(len(answer.rows), len(answer.records))


def check_leaves_the_network_alone(trial: Trial) -> None:
    """Weights, gradients, modes and buffers of the network and the global random states are as they were."""
    trial.model.train()
    with same_random_states(), same_module(trial.model):
        measured(trial)
    trial.model.eval()


def check_presents_what_is_stored(trial: Trial) -> None:
    """No answer presents nothing or a sentence; one and several are presented in every medium."""
    assert not [item for item in trial.question.present(Answers()) if isinstance(item, Table)]
    empty = dataclasses.replace(measured(trial), records=(), rows=pl.DataFrame(schema=COMMON))
    drawn(trial.question.present(Answers((empty,), ("run",))), ["run"])
    one = dataclasses.replace(measured(trial), run="run")
    items = list(trial.question.present(Answers((one,), ("run",))))
    assert items, "a complete answer presents nothing"
    drawn(items, ["run"])
    other = dataclasses.replace(one, run="other", place=1)
    both = list(trial.question.present(Answers((one, other), ("run", "other"))))
    drawn(both, ["run", "other"])
    assert any("other" in str(item) for item in both), "the second run is not named"


def drawn(items: Any, labels: list[str]) -> None:
    """Draw items for the page, the terminal and machines."""
    shown: list[Item] = list(items)
    parts_of(shown, labels, "tried")
    to_plain(shown)
    for item in shown:
        if isinstance(item, Table):
            rich_table(item)


CHECKS: tuple[Callable[[Trial], None], ...] = (
    check_documented,
    check_frozen,
    check_names_its_columns,
    check_same_answer_for_any_batch_size,
    check_same_answer_in_any_order,
    check_same_bits_after_a_kill,
    check_leaves_the_network_alone,
    check_presents_what_is_stored,
)
"""Every promise, one function each."""


def measured(trial: Trial, *, batch_size: int = 3) -> Answer:
    """The complete answer."""
    with tempfile.TemporaryDirectory() as place:
        store, inquiry = Store(Path(place)), trial.inquiry(batch_size)
        for _ in ask(inquiry, store):
            pass
        return answer_of(inquiry, store, tuple(map(str, range(10))))


def same_answers(one: Answer, other: Answer) -> None:
    """Fail where two answers differ by more than rounding."""
    assert one.rows.columns == other.rows.columns, "columns differ"
    for name in one.rows.columns:
        same_values(one.rows[name].to_list(), other.rows[name].to_list(), name)
    same_values(list(one.records), list(other.records), "records")


def same_values(one: Any, other: Any, where: str) -> None:
    """Fail where two nested values differ by more than rounding."""
    if isinstance(one, dict):
        assert isinstance(other, dict), f"{where}: values of different kinds"
        assert one.keys() == other.keys(), f"{where}: keys differ"
        for name, value in one.items():
            same_values(value, other[name], f"{where}.{name}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), f"{where}: lengths differ"
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            same_values(left, right, f"{where}[{number}]")
    elif isinstance(one, float) and isinstance(other, float):
        close = abs(one - other) <= TOLERANCE * (1 + abs(one)) or (math.isnan(one) and math.isnan(other))
        assert close, f"{where}: {one} for one batch size, {other} for another"
    else:
        assert one == other, f"{where}: {one!r} for one batch size, {other!r} for another"
