"""`holdfast evaluate`: checks on a run, on a weights file, or on a network that holdfast did not train."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.drawing import draw
from holdfast.cli.groups import Budget, ImageOptions, NetworkOptions, Order, Run, WorkOptions, grouped
from holdfast.cli.options import Json
from holdfast.cli.output import echo_json
from holdfast.cli.presets import limits, table
from holdfast.cli.request import NamedNetwork
from holdfast.cli.screen import resumable, say
from holdfast.cli.sections import show_overview
from holdfast.cli.summary import components, summary

Checks = Annotated[
    str | None,
    typer.Option(
        "--checks",
        help="A preset, see below, or checks as in a recipe (default: the run's own, or quick beside --model).",
    ),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Delete the run's earlier results, not its weights, first.")]

EPILOG = table()


@grouped
@resumable()
def command(
    network: NetworkOptions, images: ImageOptions, work: WorkOptions, run: Run = None, checks: Checks = None,
    order: Order = None, budget: Budget = None, fresh: Fresh = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Evaluate a network under noise, corruptions and attacks; repeat the command to resume."""
    from holdfast.cli import verdicts
    from holdfast.cli.certify import refute
    from holdfast.conduct.checking import check_all
    from holdfast.report import write_own_report
    from holdfast.report.runs import read_run

    named = NamedNetwork(
        verb="evaluate", run=run, network=network, images=images, work=work, checks=checks, order=order, budget=budget,
        fresh=fresh,
    )  # fmt: skip
    ready = named.ready()
    done = ready.run
    draw(check_all(ready), quiet=as_json)
    report = write_own_report(done.path)
    if as_json:
        record = {"run": str(done.path), "results": summary([done]), "yield": components([done])}
        record |= {"verdicts": verdicts.records([done]), "report": str(report)}
        echo_json(record)
    else:
        show_overview([read_run(done.path)], "yields")
        if remark := limits(checks or ("quick" if network.model is not None else None)):
            say(remark)
        for line in verdicts.failures([done]):
            say(line)
        say(f"device: {ready.device}")
        say(f"report: {report}")
    refute([done])
