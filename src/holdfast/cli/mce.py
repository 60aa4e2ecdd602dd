"""`holdfast mce`: mean corruption errors of runs, also relative to a reference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.options import Json
from holdfast.cli.output import echo_json
from holdfast.cli.screen import stdout
from holdfast.errors import RecipeError

if TYPE_CHECKING:
    from holdfast.results.corruption_errors import Corrupted


def command(
    paths: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories, or directories with runs.")],
    reference: Annotated[
        str | None, typer.Option("--reference", help="Run to divide each kind's error by, or alexnet (ImageNet).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Mean corruption errors of runs that were checked with common corruptions."""
    from holdfast.report.corruptions import Corruptions, corrupted_runs, reference_of
    from holdfast.report.find import find_runs
    from holdfast.report.runs import read_runs
    from holdfast.report.same_images import different_images, tested
    from holdfast.show.terminal import draw

    runs = read_runs(find_runs(paths))
    results = corrupted_runs(runs)
    if not results:
        raise RecipeError("mce: expected runs with corruptions by kind and severity, such as `common`; got none")
    base, others = reference_of(reference, results)
    if as_json:
        note = different_images([tested(run) for run in (*runs, *others)])
        records = [_record(one, base.get((one.family, one.source)) if reference else None) for _, one in results]
        echo_json({"reference": reference, "runs": records, "other_images": note or None})
        return
    draw(Corruptions(reference=reference).present(runs), stdout())


def _record(one: Corrupted, divided: Any) -> dict[str, Any]:
    """Errors of one network for machines."""
    return {
        "run": one.run, "weights": one.weights, "family": one.family, "source": one.source or None,
        "images": one.examples,
        "kinds": len(one.kinds), "severities": list(one.severities), "mce": one.mean(), "half": one.half,
        "relative": None if divided is None else one.mean(divided),
        "errors": one.by_kind(),
    }  # fmt: skip
