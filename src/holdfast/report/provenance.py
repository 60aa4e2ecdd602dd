"""What was run: facts, hashes and versions, and whether they fit together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, ClassVar

import polars as pl

from holdfast.questions.question import Needs
from holdfast.report.runs import RunData
from holdfast.show.items import Code, Details, Heading, Item, Note
from holdfast.show.numbers import MISSING, SPACE, count, short
from holdfast.show.table import Cell, Table
from holdfast.traits import finite

REPEAT = Code("holdfast run recipe.yaml")


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Facts, hashes and versions of runs, and their recipes."""

    title: ClassVar = "What was run"
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """A column of facts for each run, and how to repeat it."""
        yield from (facts_table(runs), Heading("Reproduce"))
        for run in runs:
            if run.recipe is not None:
                yield Details(f"Recipe of {run.label}", [Code(run.recipe)])
            else:
                text = f"No recipe was kept of {run.label}, so its training cannot be repeated from this page."
                yield Note(text, "missing")
        if any(run.recipe is not None for run in runs):
            yield from (Note("Save a recipe as recipe.yaml, then train and check again with"), REPEAT)


def facts_table(runs: Sequence[RunData]) -> Table:
    """Facts in rows, runs in columns; what a run did not record is marked as missing."""
    facts = {name: [read(run) for run in runs] for name, read in FACTS.items()}
    rows = [
        (name, [Cell(text or MISSING, words=True) for text in texts])
        for name, texts in facts.items()
        if name not in OF_SOME or any(texts)
    ]
    return Table("What each run recorded of itself.", "Fact", [run.label for run in runs], rows, style="facts")


def doubts(run: RunData) -> tuple[str, ...]:
    """Sentences on what does not fit together: a ledger made with other weights than the run records."""
    hashes = run.rows.select("weights", "weights_hash").unique(maintain_order=True)
    return tuple(
        f"{run.label}: the ledger has results of {weights} weights {digits}, but run.json records {recorded}."
        for weights, digits in hashes.iter_rows()
        if (recorded := _weights(run, weights).get("sha256")) and digits and not str(recorded).startswith(digits)
    )


def _text(key: str) -> Callable[[RunData], str]:
    return lambda run: "" if run.facts.get(key) is None else str(run.facts[key])


def _of(section: str, key: str) -> Callable[[RunData], str]:
    return lambda run: "" if run.section(section).get(key) is None else str(run.section(section)[key])


def _seconds(key: str) -> Callable[[RunData], str]:
    def read(run: RunData) -> str:
        value = finite(run.section("seconds").get(key))
        return "" if value is None else f"{value:.1f}{SPACE}s"

    return read


def _seeds(run: RunData) -> str:
    return ", ".join(str(seed) for seed in run.rows["seed"].drop_nulls().unique().sort())


def _images(run: RunData) -> str:
    shape = run.section("data").get("shape")
    return " × ".join(str(size) for size in shape) if isinstance(shape, list) else ""


def _splits(run: RunData) -> str:
    data = run.section("data")
    return ", ".join(
        f"{count(data[key])} {key}" for key in ("train", "validation", "test") if finite(data.get(key)) is not None
    )


def _parameters(run: RunData) -> str:
    value = finite(run.section("model").get("parameters"))
    return "" if value is None else count(value)


def _weights(run: RunData, name: str) -> dict[str, Any]:
    value = run.section("weights").get(name)
    return value if isinstance(value, dict) else {}


def _all_weights(run: RunData) -> str:
    return "\n".join(_one(name, _weights(run, name)) for name in run.section("weights"))


def _one(name: str, facts: dict[str, Any]) -> str:
    parts = [f"{name}: {facts.get('sha256', 'hash ' + MISSING)}"]
    if "epoch" in facts:
        parts.append(f"epoch {facts['epoch']}")
    if "metric" in facts:
        parts.append(f"{facts['metric']} {short(facts.get('value'))}")
    if "file" in facts:
        parts.append(PurePath(str(facts["file"])).name)
    return ", ".join(parts)


def _hashes(run: RunData) -> str:
    hashes = run.rows.select(pl.concat_str("weights", pl.lit(" "), "weights_hash")).to_series().drop_nulls()
    return ", ".join(hashes.unique().sort())


def _versions(run: RunData) -> str:
    return ", ".join(f"{name} {version}" for name, version in run.section("versions").items())


def _started_from(run: RunData) -> str:
    initial = run.section("init_from")
    fresh = "fresh weights" if run.epochs else ""
    return _other_run(initial) if initial else fresh


def _made_of(run: RunData) -> str:
    """The networks inside a composite."""
    return "\n".join(f"{role}: {_base(base)}" for role, base in run.section("bases").items() if isinstance(base, dict))


def _base(base: Mapping[str, Any]) -> str:
    return f"{base['neighbours']} training images" if "neighbours" in base else _other_run(base)


def _fitted(run: RunData) -> str:
    """Numbers of a composite's transformation that were fitted, and what they achieve on validation images."""
    fitted = run.section("fitted")
    numbers = [f"{name} {short(fitted[name])}" for name in ("scale", "power", "shift", "strength") if name in fitted]
    shares = {"kept": "right under attack and kept", "overruling": "wrong on clean images and kept"}
    achieved = [f"{words}: {short(fitted[name])}" for name, words in shares.items() if name in fitted]
    return "\n".join(filter(None, [", ".join(numbers), *achieved, str(fitted.get("attack", ""))]))


def _other_run(source: Mapping[str, Any]) -> str:
    return f"{source.get('name')}, {_one(str(source.get('weights')), dict(source))}"


FACTS: dict[str, Callable[[RunData], str]] = {
    "Name": _text("name"),
    "Recipe": _text("recipe"),
    "Variant": _text("variant"),
    "Seed of training": _text("seed"),
    "Seeds of the checks": _seeds,
    "Data": _of("data", "name"),
    "Data fingerprint": _of("data", "fingerprint"),
    "Images": _images,
    "Examples": _splits,
    "Model": _of("model", "name"),
    "Parameters": _parameters,
    "Started from": _started_from,
    "Made of": _made_of,
    "Fitted": _fitted,
    "Weights (sha256)": _all_weights,
    "Weights in the ledger": _hashes,
    "Training took": _seconds("train"),
    "Evaluation took": _seconds("evaluate"),
    "Versions": _versions,
}

OF_SOME = frozenset({"Made of", "Fitted"})
"""Facts that most networks do not have, which are not missing there."""
