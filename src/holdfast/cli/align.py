"""`holdfast align`: a trained network learns to answer as others do, so that attacks on it transfer better."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.code_permission import allowed_code
from holdfast.cli.drawing import draw
from holdfast.cli.groups import PlaceOptions, grouped
from holdfast.cli.locks import hold
from holdfast.cli.options import Json
from holdfast.cli.output import echo_json
from holdfast.cli.screen import resumable, say
from holdfast.cli.sections import show_overview


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """How the network is aligned."""

    lr: Annotated[float, typer.Option("--lr", min=0, help="Learning rate.")] = 1e-3
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Passes over the training images.")] = 1
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Images per step.")] = 128
    warmup: Annotated[float, typer.Option("--warmup", min=0, help="Epochs of linear rise of the rate before.")] = 0.0
    clip: Annotated[float | None, typer.Option("--clip", help="Largest norm of the gradient.")] = None
    temperature: Annotated[float, typer.Option("--temperature", help="Of the divergence of answers.")] = 4.0
    embedding: Annotated[
        str | None, typer.Option("--embedding", help="Distance of features instead: rkd, ega, hint or nce.")
    ] = None
    output: Annotated[
        float | None,
        typer.Option("--output", help="Weight of the divergence of answers (default: 1, and 0 beside --embedding)."),
    ] = None
    batch_norm: Annotated[
        str, typer.Option("--batch-norm", help="Statistics of BatchNorm: train, frozen or recalibrate.")
    ] = "train"
    held_out: Annotated[
        str | None,
        typer.Option(
            "--held-out", metavar="RUN", help="Network on which the best epoch is chosen; no target of any table."
        ),
    ] = None
    patience: Annotated[
        int | None, typer.Option("--patience", min=1, help="Stop after so many epochs without a better one.")
    ] = None


@grouped
@resumable()
def command(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Run directory, or weights written by holdfast.")],
    witness: Annotated[
        list[str], typer.Option("--witness", metavar="RUN", help="Network to align with; may be repeated.")
    ],
    options: PlanOptions,
    where: PlaceOptions,
    controls: Annotated[
        bool,
        typer.Option(
            "--controls",
            help="Also train what alignment is compared with: rate 0, as much ordinary training, label smoothing, and "
            "alignment to the source itself.",
        ),
    ] = False,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the recipe (default: that of the source, and -aligned).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Align a trained network with others, check it on clean images; repeat the command to resume."""
    from holdfast.conduct.aligning import AlignmentPlan, alignment_recipes
    from holdfast.conduct.jobs import claim_jobs
    from holdfast.conduct.ranks import is_first
    from holdfast.conduct.runs import run_jobs
    from holdfast.report.runs import read_runs

    place = where.place()
    recipes = alignment_recipes(source, witness, AlignmentPlan(**asdict(options)), controls=controls, name=name)
    code = allowed_code(recipes, Path(source), trust=where.trust)
    jobs = claim_jobs(recipes, where.out, hold, fresh=where.fresh, trust=code)
    failed = draw(run_jobs(jobs, where.out, data_root=where.data_root, device=place), quiet=as_json)
    if not is_first():
        return
    runs = [job.run for job in jobs if job.run.ledger.parts()]
    if as_json:
        records = [{"name": job.name, "path": str(job.run.path), **job.run.info()} for job in jobs]
        echo_json({"runs": records, "failed": {one.job.name: one.reason for one in failed}})
    else:
        show_overview(read_runs([run.path for run in runs]))
        for job in jobs:
            say(f"{job.name}: weights in {job.run.path}")
    if failed:
        raise typer.Exit(1)
