"""A matrix of transfer as a page: heat maps by attack, paired differences of aligned networks, and the networks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl

from holdfast import files
from holdfast.results.matrices import CONTROLS, FACTS, MatrixData, read_matrix
from holdfast.results.transfers import CLEAN, DENOMINATORS, Change, Denominator, Rate
from holdfast.show.items import Details, Item, Note
from holdfast.show.numbers import count, interval, p_value, percent, points
from holdfast.show.page import Section, render_page
from holdfast.show.table import Cell, Table, coloured
from holdfast.statistics import holm, wilson

MARK = "Without controls."
"""At every number of an alignment that lacks some."""
MAIN: Denominator = "right on both"
"""The denominator that is shown first."""


def write_matrix_report(path: Path, facts: Mapping[str, Any]) -> Path:
    """Write the facts of a finished matrix, and its page."""
    files.write_checked(path / FACTS, json.dumps(facts, indent=2, sort_keys=True).encode() + b"\n")
    page = render_matrix(read_matrix(path))
    out = path / "report.html"
    with files.replacing(out) as file:
        file.write(page.encode("utf-8", "replace"))
    return out


def render_matrix(data: MatrixData) -> str:
    """The whole page as text."""
    parts = {
        "errors": ("Transfer", errors(data)),
        "changes": ("Aligned networks and their controls", changes(data)),
        "networks": ("Networks", networks(data)),
    }
    sections = [Section.of(name, title, items) for name, (title, items) in parts.items()]
    return render_page(f"Transfer matrix {data.facts['name']}", sections, kicker="Transfer matrix")


def errors(data: MatrixData) -> Iterator[Item]:
    """Heat maps of error rates, one for each attack; other denominators are folded away."""
    yield Note(
        "Each cell is the error rate of a target (column) at points that the attack made on a source (row), with its "
        "95 % interval (Wilson). Points are made once for each source and attack and tried on every target. Where "
        "both are the same network, it is the white-box attack."
    )
    yield from _heat_maps(data, MAIN)
    for denominator in DENOMINATORS:
        if denominator != MAIN:
            yield Details(f"Error rates of {DENOMINATORS[denominator]}", list(_heat_maps(data, denominator)))


def _heat_maps(data: MatrixData, denominator: Denominator) -> Iterator[Table]:
    of = data.transfers
    for attack in of.attacks:
        rows = [
            (source, [_cell(of.rate(source, attack, target, denominator)) for target in of.targets])
            for source in of.sources
        ]
        caption = f"{attack}: error rates in percent of {DENOMINATORS[denominator]}."
        yield Table(caption, "Source \\ target", of.targets, coloured(rows), style="dense")


def _cell(rate: Rate | None) -> Cell:
    if rate is None:
        return Cell("–", note="no points made on it")
    share, between = rate.share, rate.interval
    if share is None or between is None:
        return Cell("–", note="0 images")
    return Cell(f"{100 * share:.1f}", note=f"{interval(between.low, between.high)} of {rate.examples}", value=share)


def changes(data: MatrixData) -> Iterator[Item]:
    """For each attack, how much better points of a network transfer than those of the one that it comes from."""
    descendants = data.descendants
    if not descendants:
        return
    yield Note(
        "Points made on a network that was trained on, against points made on the one that it comes from: change of "
        "the error rate in percentage points (▲ means that they transfer better), over the images that both and the "
        "target get right without an attack, the same for both. p: exact McNemar test, Holm-corrected over the tests "
        "of a table. The mean is over targets other than the two and the witnesses, defended or not."
    )
    for one in descendants:
        if missing := data.missing_controls(one):
            yield Note(
                f"{one['name']} is not compared with {len(missing)} of {len(CONTROLS)} controls of the same origin "
                f"({', '.join(missing)}), so that nobody knows whether its witness matters; "
                "`holdfast align --controls` trains them.",
                "doubt",
                MARK,
            )
    for attack in data.transfers.attacks:
        yield _change_table(data, descendants, attack)


def _change_table(data: MatrixData, descendants: Sequence[Mapping[str, Any]], attack: str) -> Table:
    each = [data.changes(one, attack) for one in descendants]
    tested = [change.paired for changes_ in each for change in changes_.values() if change.paired is not None]
    adjusted = iter(holm([paired.p_value for paired in tested]))
    rows = []
    for one, changes_ in zip(descendants, each, strict=True):
        cells = [_change_cell(change, adjusted) for change in changes_.values()]
        counted = [changes_[target].paired for target in data.counted_targets(one)]
        differences = [paired.difference for paired in counted if paired is not None]
        mean = Cell(points(fmean(differences)), value=fmean(differences)) if differences else Cell("–")
        marked = f"{_described(one)}. {MARK}" if data.missing_controls(one) else _described(one)
        rows.append((marked, [*cells, replace(mean, note=f"{len(differences)} targets")]))
    return Table(f"{attack}: changes in percentage points.", "Source", [*data.transfers.targets, "Mean"], rows)


def _change_cell(change: Change, adjusted: Iterator[float]) -> Cell:
    if change.paired is None:
        return Cell("–", note="0 images")
    text = f"p {p_value(next(adjusted))}, of {count(change.paired.examples)}"
    return Cell(points(change.paired.difference), note=text, value=change.paired.difference)


def _described(network: Mapping[str, Any]) -> str:
    return f"{network['name']} ({_training(network)}), from {network['before']}"


def _training(network: Mapping[str, Any]) -> str:
    """What a network that comes from another one was trained for, or is defended by; empty for others."""
    if network.get("defence"):
        return f"none: {network['defends']} behind {network['defence']}"
    if network["control"] or not network["witnesses"]:
        return str(network["control"])
    return f"aligned with {' and '.join(network['witnesses'])}"


def networks(data: MatrixData) -> Iterator[Item]:
    """Accuracy of every network on the images, and where it comes from."""
    images = data.facts["data"]
    yield f"{count(images['test'])} test images of {images['name']} ({images['examples']}), seed {data.facts['seed']}."
    rows = []
    for one in data.facts["networks"]:
        right = data.transfers.rows.filter((pl.col("run") == one["name"]) & (pl.col("check") == CLEAN))["correct"]
        correct = sum(right.to_list())
        between = wilson(correct, len(right))
        cells = [
            Cell(percent(correct / len(right)), note=interval(between.low, between.high)),
            Cell(" and ".join(role for role in ("source", "target") if one[role]), words=True),
            Cell(_training(one), words=True),
            Cell(one["sha256"][:12], words=True),
            Cell(one["path"], words=True),
        ]
        rows.append((one["name"], cells))
    columns = ("Accuracy", "Role", "Training", "Weights", "Path")
    yield Table("Networks of the matrix; accuracy on the test images without an attack.", "Network", columns, rows)


def records(data: MatrixData) -> dict[str, Any]:
    """Everything as plain values, for machines."""
    of = data.transfers
    rates = [
        {
            "source": rate.source, "attack": rate.attack, "target": rate.target, "denominator": rate.denominator,
            "errors": rate.errors, "examples": rate.examples, "share": rate.share,
            "low": None if rate.interval is None else rate.interval.low,
            "high": None if rate.interval is None else rate.interval.high,
        }
        for denominator in DENOMINATORS for attack in of.attacks for source in of.sources for target in of.targets
        if (rate := of.rate(source, attack, target, denominator)) is not None
    ]  # fmt: skip
    differences = [
        {
            "before": change.before, "after": change.after, "attack": attack, "target": target,
            "counts_in_mean": target in data.counted_targets(one), "control": one["control"],
            "missing_controls": data.missing_controls(one),
            **({} if change.paired is None else vars(change.paired)),
        }
        for attack in of.attacks for one in data.descendants for target, change in data.changes(one, attack).items()
    ]  # fmt: skip
    return {"matrix": dict(data.facts), "rates": rates, "changes": differences}
