"""`holdfast evaluate`: checks on a run, on a weights file, or on a network that holdfast did not train."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.asked import Asked
from holdfast.cli.device import Device
from holdfast.cli.networks import prepared
from holdfast.cli.options import OUT, Json, Out, Root
from holdfast.cli.output import echo_json
from holdfast.cli.presets import limits, table
from holdfast.cli.screen import interrupt_on_kill, resumable, say
from holdfast.cli.summary import show_at_chance, show_left_out, show_summary, summary

Model = Annotated[
    str | None, typer.Option("--model", help="python:package.module:factory, or a name of `holdfast list models`.")
]
Weights = Annotated[
    Path | None, typer.Option("--weights", help="File with its weights: safetensors, or a state dict saved by PyTorch.")
]
Data = Annotated[
    str | None, typer.Option("--data", help="Data set, image folder, .npz or .npy file, or as a recipe has it.")
]
Checks = Annotated[
    str | None,
    typer.Option(
        "--checks",
        help="A preset, see below, or checks as a recipe has them (default: the run's own, or quick beside --model).",
    ),
]
Order = Annotated[
    str | None, typer.Option("--order", help="Of AutoAttack's components: published, or yield (broken per second).")
]
Budget = Annotated[
    str | None, typer.Option("--budget", help="Stop after this time, such as 10min, and say what was not run.")
]
Numbers = Annotated[str | None, typer.Option(help="Per channel, such as 0.49,0.48,0.45.")]
Size = Annotated[int | None, typer.Option("--size", min=1, help="Bring a folder's images to this size.")]
Grey = Annotated[bool, typer.Option("--grey", help="Read a folder's images in one channel.")]
Subset = Annotated[
    int | None,
    typer.Option("--subset", min=1, help="Test on this many images, drawn at random and balanced over the classes."),
]
First = Annotated[
    int | None,
    typer.Option("--first", min=1, help="Test on the first so many images, as published protocols often do."),
]
Name = Annotated[str | None, typer.Option("--name", help="Name of the run to write.")]
Seed = Annotated[int | None, typer.Option("--seed", min=0, max=2**63 - 1, help="Random seed (default: 0).")]
BatchSize = Annotated[int | None, typer.Option("--batch-size", min=1, help="Images per forward pass.")]
Trust = Annotated[bool, typer.Option("--trust", help="Call a factory that a weights file or a run's directory names.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Delete the run's earlier results, not its weights, first.")]


EPILOG = table()


def command(
    run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="Run directory or weights by holdfast.")] = None,
    model: Model = None, weights: Weights = None, data: Data = None, checks: Checks = None,
    mean: Numbers = None, std: Numbers = None, size: Size = None, grey: Grey = False, subset: Subset = None,
    first: First = None, name: Name = None, seed: Seed = None, batch_size: BatchSize = None, order: Order = None,
    budget: Budget = None, device: Device = None, trust: Trust = False, fresh: Fresh = False, out: Out = OUT,
    data_root: Root = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Check whether a network holds; repeat the command to resume."""
    from holdfast.cli import verdicts, work
    from holdfast.cli.certify import refute
    from holdfast.cli.outcome import components, show_components
    from holdfast.report import write_report

    interrupt_on_kill()
    asked = Asked(
        run=run, model=model, weights=weights, data=data, checks=checks, mean=mean, std=std, size=size, grey=grey,
        subset=subset, first=first, name=name, seed=seed, batch_size=batch_size, order=order, budget=budget,
        device=device, trust=trust, fresh=fresh, out=out, root=data_root, verb="evaluate",
    )  # fmt: skip
    with resumable():
        ready = prepared(asked)
        done = ready.run
        work.evaluate_all(done, ready.subjects, ready.splits, ready.checks, ready.how, ready.seed, quiet=as_json)
        report = write_report([done.path], done.path / "report.html")
    records = summary([done])
    if as_json:
        record = {"run": str(done.path), "results": records, "yield": components([done])}
        record |= {"verdicts": verdicts.records([done]), "report": str(report)}
        echo_json(record)
    else:
        show_summary(records)
        show_components([done])
        show_left_out([done])
        show_at_chance([done])
        if remark := limits(checks or ("quick" if model is not None else None)):
            say(remark)
        for line in verdicts.failures([done]):
            say(line)
        say(f"device: {ready.device}")
        say(f"report: {report}")
    refute([done])
