"""Networks that differ in their optimiser, with what is known of each after each epoch that has results."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import yaml

from holdfast.report.epochs import final_weights
from holdfast.report.runs import RunData
from holdfast.results.labels import epoch_of
from holdfast.results.ledger import natural
from holdfast.results.summaries import accuracies
from holdfast.show.numbers import several
from holdfast.traits import Kind
from holdfast.yaml_text import load_yaml

MEASURES = {
    "product": "product of layer norms",
    "upper": "Lipschitz bound",
    "lower": "lower bound",
    "weights": "norm of weights",
    "gradient": "mean gradient norm",
    "relative": "margin's gradient over margin",
}
"""What the question `lipschitz` records, in few words."""


@dataclass(frozen=True)
class Point:
    """A network after an epoch.

    Args:
        run: which run of the study it is of.
        epoch: after which epoch.
        main: whether these are the weights that the rest of the page is about.
        loss: mean training loss of the epoch, as training recorded it.
        validation: accuracy on validation images; None where it was not measured.
        clean: accuracy on clean test images.
        robust: accuracy in each other check.
    """

    run: int
    epoch: int
    main: bool
    loss: float
    validation: float | None
    clean: float
    robust: Mapping[str, float]

    def mean(self, checks: Sequence[str]) -> float:
        """The mean accuracy over some checks, table 4.1's measure of robustness."""
        return math.fsum(self.robust[check] for check in checks) / len(checks)


@dataclass(frozen=True)
class Trained:
    """A run of a study.

    Args:
        label: of the run.
        optimiser: the optimiser, with fields in which those of one name differ, without its rate.
        rate: its learning rate.
        points: its networks, in the order of training.
        measures: answers of the question `lipschitz` about its main weights, by the keys of `MEASURES`.
        final_loss: mean training loss of the last epoch; None where it is not recorded.
    """

    label: str
    optimiser: str
    rate: float
    points: tuple[Point, ...]
    measures: Mapping[str, float] = field(default_factory=dict)
    final_loss: float | None = None

    @property
    def main(self) -> Point | None:
        """The network that the rest of the page is about."""
        return next((point for point in self.points if point.main), None)


@dataclass(frozen=True)
class Study:
    """Runs that differ in optimiser, rate and seed alone.

    Args:
        title: what tells it from other studies of the page; empty for the only one.
        runs: its runs.
        checks: the checks beside clean images that the main networks of all runs went through.
        followed: those that networks after other epochs went through, too.
        measured: on which terms all runs were asked the question `lipschitz`.
    """

    title: str
    runs: tuple[Trained, ...]
    checks: tuple[str, ...]
    followed: tuple[str, ...]
    measured: str = ""

    @property
    def optimisers(self) -> tuple[str, ...]:
        """The optimisers in the order of the runs."""
        return tuple(dict.fromkeys(run.optimiser for run in self.runs))

    def of(self, optimiser: str) -> list[int]:
        """Which runs an optimiser trained."""
        return [place for place, run in enumerate(self.runs) if run.optimiser == optimiser]

    def independent(self, optimiser: str) -> list[list[int]]:
        """Runs of an optimiser in groups that count as independent: its rates or, where it has one, its runs."""
        rates: dict[float, list[int]] = {}
        for place in self.of(optimiser):
            rates.setdefault(self.runs[place].rate, []).append(place)
        return list(rates.values()) if len(rates) > 1 else [[place] for place in self.of(optimiser)]

    def main(self) -> list[tuple[Trained, Point]]:
        """Each run with its main network."""
        return [(run, run.main) for run in self.runs if run.main is not None]


def studies(runs: Sequence[RunData]) -> list[Study]:
    """The groups of runs that differ in nothing but optimiser, rate and seed, if they have two optimisers or more."""
    read = [(run, recipe) for run in runs if (recipe := recipe_of(run)) is not None]
    groups: dict[str, list[tuple[RunData, Mapping[str, Any]]]] = {}
    for run, recipe in read:
        groups.setdefault(json.dumps(_setting(recipe), sort_keys=True), []).append((run, recipe))
    compared = {text: group for text, group in groups.items() if len(set(_names(group))) > 1}
    titles = _titles(list(compared))
    return [
        made for title, group in zip(titles, compared.values(), strict=True) if (made := _study(title, group)).checks
    ]


def recipe_of(run: RunData) -> Mapping[str, Any] | None:
    """The recipe of a run whose optimiser it states."""
    try:
        recipe = load_yaml(run.recipe or "")
    except yaml.YAMLError:
        return None
    train = recipe.get("train") if isinstance(recipe, dict) else None
    return recipe if isinstance(train, dict) and isinstance(train.get("optimizer"), dict | str) else None


def optimiser_of(recipe: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Name and fields of the optimiser."""
    stated = recipe["train"]["optimizer"]
    if isinstance(stated, str):
        return stated, {}
    ((name, fields),) = stated.items()
    return str(name), fields if isinstance(fields, dict) else {}


def _setting(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """All of a recipe that runs of a study share."""
    kept = {name: value for name, value in recipe.items() if name in ("data", "model", "train")}
    return {**kept, "train": {name: value for name, value in kept["train"].items() if name != "optimizer"}}


def _titles(settings: Sequence[str]) -> list[str]:
    """The fields in which settings differ, of each."""
    flat = [dict(_flat(json.loads(text))) for text in settings]
    names = sorted({name for one in flat for name in one})
    differing = [name for name in names if len({json.dumps(one.get(name)) for one in flat}) > 1]
    return [", ".join(f"{name}={one[name]}" for name in differing if name in one) for one in flat]


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, below in value.items():
            yield from _flat(below, f"{path}.{name}".lstrip("."))
    else:
        yield path, value


def _names(group: Sequence[tuple[RunData, Mapping[str, Any]]]) -> list[str]:
    """The optimisers of runs, told apart."""
    return _distinguished([optimiser_of(recipe) for _, recipe in group])


def _study(title: str, group: Sequence[tuple[RunData, Mapping[str, Any]]]) -> Study:
    terms, measures = _measures([run for run, _ in group])
    trained = [
        Trained(
            run.label, name, float(optimiser_of(recipe)[1].get("lr", math.nan)), _points(run, place), own,
            _recorded(run, run.epochs[-1].get("epoch") if run.epochs else None)[0],
        )
        for place, ((run, recipe), name, own) in enumerate(zip(group, _names(group), measures, strict=True))
    ]  # fmt: skip
    every = [point for run in trained for point in run.points]
    main = _common([point for point in every if point.main])
    return Study(title, tuple(trained), main, _common(every), terms)


def _common(points: Sequence[Point]) -> tuple[str, ...]:
    """The checks that all networks went through."""
    each = [set(point.robust) for point in points]
    return tuple(sorted(set.intersection(*each), key=natural)) if each else ()


def _distinguished(optimisers: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The name of each, with fields other than the rate in which those of its name differ."""
    named = []
    for name, fields in optimisers:
        same = [others for other, others in optimisers if other == name]
        differing = [key for key in fields if key != "lr" and len({json.dumps(one.get(key)) for one in same}) > 1]
        named.append(" ".join([name, *(f"{key}={fields[key]}" for key in differing)]))
    return named


def _points(run: RunData, place: int) -> tuple[Point, ...]:
    """A point for each epoch whose network went through clean images."""
    last = final_weights(run)
    epochs = {label: epoch_of(label) for label in run.epoch_rows["weights"].unique()}
    recorded = {label: facts.get("epoch") for label, facts in run.section("weights").items() if isinstance(facts, dict)}
    epochs |= {label: recorded.get(label) for label in run.weights}
    rows = accuracies(pl.concat([run.rows, run.epoch_rows]).filter(pl.col("kind") != Kind.CERTIFICATE))
    points = {}
    for label, epoch in sorted(epochs.items(), key=lambda each: (each[1] or 0, each[0] == run.weights[0])):
        shares = _shares(rows, label)
        loss, validation = _recorded(run, epoch)
        if isinstance(epoch, int) and loss is not None and "clean" in shares:
            main = label == run.weights[0] or (last is None and len(epochs) == 1)
            points[epoch] = Point(place, epoch, main, loss, validation, shares.pop("clean"), shares)
    return tuple(points[epoch] for epoch in sorted(points))


def _shares(rows: pl.DataFrame, label: str) -> dict[str, float]:
    """The accuracy of some weights in each check that is settled."""
    settled = rows.filter((pl.col("weights") == label) & (pl.col("unsettled") == 0))
    return {row["check"]: row["correct"] / row["examples"] for row in settled.iter_rows(named=True)}


def _recorded(run: RunData, epoch: Any) -> tuple[float | None, float | None]:
    """The training loss of an epoch and the accuracy on validation images, where they are recorded."""
    record = next((one for one in run.epochs if one.get("epoch") == epoch), {})
    train, validation = record.get("train"), record.get("validation") or {}
    loss = train.get("total") if isinstance(train, dict) else None
    return (float(loss) if isinstance(loss, float | int) else None), validation.get("accuracy")


def _measures(runs: Sequence[RunData]) -> tuple[str, list[dict[str, float]]]:
    """On which terms most runs were asked for Lipschitz constants, and the answers about their main weights on these.

    Runs that were asked on other terms alone have none. Of terms that as many runs share, those with more images count.
    """
    answers = [
        {
            (answer.key.examples, json.dumps(answer.settings, sort_keys=True)): answer
            for answer in run.answered
            if answer.key.question == "lipschitz" and answer.key.weights == run.weights[0] and answer.records
        }
        for run in runs
    ]
    every = [terms for own in answers for terms in own]
    if not every:
        return "", [{} for _ in runs]
    euclidean = [terms for terms in every if json.loads(terms[1]).get("norm") == "l2"]
    chosen = max(euclidean or every, key=lambda terms: (every.count(terms), *terms))
    records = [own[chosen].records[0] if chosen in own else {} for own in answers]
    values = [
        {name: float(record[name]) for name in MEASURES if isinstance(record.get(name), float | int)}
        for record in records
    ]
    return f"norm {json.loads(chosen[1]).get('norm')}, {several(chosen[0], 'image')}", values
