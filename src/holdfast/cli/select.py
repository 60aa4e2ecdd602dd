"""`holdfast select`: the most robust of runs that are about as accurate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.options import Json
from holdfast.cli.output import echo_json


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories, or directories of runs.")],
    by: Annotated[
        str,
        typer.Option(
            "--by", help="The quantity that decides, or a part of its name, such as margin or linf eps=8/255."
        ),
    ],
    accuracy: Annotated[float, typer.Option("--accuracy", help="Centre of the band of clean accuracy, such as 0.985.")],
    within: Annotated[float, typer.Option("--within", help="Half the width of the band.")] = 0.003,
    per: Annotated[
        str | None, typer.Option("--per", help="The best for each value of this field, such as train.objective.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Choose among runs with a clean accuracy in a band; the best of each group comes first."""
    from holdfast.cli.sections import show
    from holdfast.report.find import find_runs
    from holdfast.report.runs import read_runs
    from holdfast.report.same_images import different_images, tested
    from holdfast.report.selection import Selection, same_checks

    data, selection = read_runs(find_runs(runs)), Selection(by=by, accuracy=accuracy, within=within, per=per)
    if not as_json:
        show(selection.present(data))
        return
    name, chosen = selection.chosen(data)
    records = [
        {"group": group, "run": one.run, "weights": one.weights, **one.values, "at_chance": one.at_chance}
        for group, members in chosen.items()
        for one in members
    ]
    notes: dict[str, Any] = {"other_images": different_images([tested(run) for run in data]) or None}
    notes |= {"same_checks": same_checks(chosen, name)}
    echo_json({"by": name, "accuracy": accuracy, "within": within, "runs": records, **notes})
