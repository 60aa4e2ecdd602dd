"""`holdfast mce`: mean corruption errors of runs, also relative to a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.options import Json
from holdfast.cli.output import echo_json
from holdfast.cli.screen import percent, say, table
from holdfast.errors import RecipeError

if TYPE_CHECKING:
    from holdfast.report.runs import RunData
    from holdfast.results.corruption_errors import Corrupted


def command(
    paths: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories, or directories with runs.")],
    reference: Annotated[
        str | None, typer.Option("--reference", help="Run to divide each kind's error by, or alexnet (ImageNet).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Mean corruption errors of runs that were checked with common corruptions."""
    from holdfast.report import read_runs
    from holdfast.report.find import find_runs
    from holdfast.report.same_images import different_images, tested
    from holdfast.results.corruption_errors import corrupted

    runs = read_runs(find_runs(paths))
    errors = [one for run in runs for one in corrupted(run.graded) if one.weights == run.weights[0]]
    if not errors:
        raise RecipeError("mce: expected runs with corruptions by kind and severity, such as `common`; got none")
    base, others = _reference(reference, errors)
    records = [_record(one, base.get((one.family, one.source))) for one in errors]
    note = different_images([tested(run) for run in (*runs, *others)]) or None
    if as_json:
        echo_json({"reference": reference, "runs": records, "other_images": note})
        return
    relative = [f"relative to {reference}"] if reference else []
    rows = [_row(one, record, relative=bool(reference)) for record, one in zip(records, errors, strict=True)]
    table(["run", "mean corruption error, 95 %", *relative, "kinds x severities", "images"], rows)
    if note:
        say(f"not comparable: {note}")


def _reference(
    reference: str | None, corrupted_runs: Sequence[Corrupted]
) -> tuple[Mapping[tuple[str, str], Any], Sequence[RunData]]:
    """What errors are divided by, for each family and source, and the run that it comes from."""
    from holdfast.report import read_runs
    from holdfast.results.corruption_errors import ALEXNET, corrupted

    if reference is None:
        return {}, ()
    if reference == "alexnet":
        families = [(one.family, one.source) for one in corrupted_runs if one.family in ("common", "stored")]
        return dict.fromkeys(families, ALEXNET), ()
    (other,) = read_runs([Path(reference)])
    errors = [one for one in corrupted(other.graded) if one.weights == other.weights[0]]
    return {(one.family, one.source): one for one in errors}, (other,)


def _record(one: Corrupted, divided: Any) -> dict[str, Any]:
    """Errors of one network for machines."""
    return {
        "run": one.run, "weights": one.weights, "family": one.family, "source": one.source or None,
        "images": one.examples,
        "kinds": len(one.kinds), "severities": list(one.severities), "mce": one.mean(), "half": one.half,
        "relative": None if divided is None else one.mean(divided),
        "errors": one.by_kind(),
    }  # fmt: skip


def _row(one: Corrupted, record: Mapping[str, Any], *, relative: bool) -> list[str]:
    """Errors of one network for people."""
    extra = ["unknown" if record["relative"] is None else f"{record['relative']:z.4f}"] if relative else []
    size = f"{record['kinds']} x {len(record['severities'])}"
    return [f"{one.run}, {one.title}", _mean(record["mce"], record["half"]), *extra, size, str(record["images"])]


def _mean(mce: float | None, half: float | None) -> str:
    from holdfast.show.numbers import give_or_take

    if mce is None:
        return "not complete"
    return f"{percent(mce)} {give_or_take(half, lambda half: f'{100 * half:.1f}')}"
