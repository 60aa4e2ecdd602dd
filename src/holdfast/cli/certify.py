"""`holdfast certify`: what provably holds of one network, and how far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.attack import alone, described, label_of
from holdfast.cli.drawing import draw
from holdfast.cli.groups import Budget, ImageOptions, NetworkOptions, Run, WorkOptions, grouped
from holdfast.cli.options import Json
from holdfast.cli.output import echo, echo_json
from holdfast.cli.request import NamedNetwork
from holdfast.cli.screen import resumable, say
from holdfast.cli.sections import show
from holdfast.errors import RecipeError

if TYPE_CHECKING:
    from holdfast.runs.directory import Run as RunDirectory
    from holdfast.types import Certifier

Fields = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Any field of the certifier, such as alpha=0.01."),
]


@dataclass(frozen=True, kw_only=True)
class CertifierOptions:
    """Fields of the certifier that have options of their own."""

    sigma: Annotated[str | None, typer.Option("--sigma", help="Strength of the noise.")] = None
    n: Annotated[int | None, typer.Option("--n", help="Maximum number of noisy copies of each image.")] = None
    alpha: Annotated[str | None, typer.Option("--alpha", help="Probability that a certificate is wrong.")] = None
    norm: Annotated[str | None, typer.Option("--norm", help="Norm of the radii: l1, l2 or linf.")] = None
    sampling: Annotated[
        str | None, typer.Option("--sampling", help="Stopping rule: a name of `holdfast list samplings`.")
    ] = None
    set_: Fields = None

    def certifier(self, method: str, radii: Sequence[float] | None) -> Certifier:
        """The certifier that the options describe."""
        from holdfast.types import Certifier

        stated = {"sigma": self.sigma, "n": self.n, "alpha": self.alpha, "norm": self.norm}
        stated["sampling"] = _sampling(method, self.sampling, radii)
        fields = {name: value for name, value in stated.items() if value is not None}
        certifier: Certifier = described(Certifier, "--method", method, fields, self.set_ or (), example="alpha=0.01")
        return certifier


@grouped
@resumable()
def command(
    method: Annotated[str, typer.Option("--method", help="A name of `holdfast list certifiers`.")],
    options: CertifierOptions,
    network: NetworkOptions, images: ImageOptions, work: WorkOptions,
    run: Run = None,
    radii: Annotated[
        str | None,
        typer.Option("--radii", help="Show the curve at these radii, such as 0,0.25,0.5 (default: round values)."),
    ] = None,
    budget: Budget = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Certify a network: how many images are provably robust, and how far; repeat the command to resume."""
    from holdfast.cli.records import CLEAN, certificate_record
    from holdfast.conduct.checking import check_network
    from holdfast.corruptions.noise import Clean
    from holdfast.report import write_own_report
    from holdfast.report.certificates import Certificates
    from holdfast.report.runs import read_run
    from holdfast.report.summary import Summary
    from holdfast.report.unfinished import Unfinished

    named = NamedNetwork(verb="certify", run=run, network=network, images=images, work=work, budget=budget)
    shown = _radii(radii)
    certifier = options.certifier(method, shown)
    ready = alone(named.ready(), [Clean(), certifier], budget)
    draw(check_network(ready), quiet=as_json)
    report = write_own_report(ready.run.path)
    weights, label = ready.subjects[0].weights, label_of(certifier)
    record = certificate_record(ready.run.path, weights, label, shown)
    if as_json:
        echo_json({**record, "report": str(report)})
    else:
        data = read_run(ready.run.path).only(weights, (CLEAN, label))
        for unit in (Summary(), Unfinished(), Certificates(radii=shown or ())):
            show(unit.present([data]))
        say(f"device: {ready.device}")
        say(f"report: {report}")
    refute([ready.run])


def _radii(text: str | None) -> tuple[float, ...] | None:
    """The radii that the user wants to see, in order."""
    from holdfast.recipe.strict import parse

    if text is None:
        return None
    radii: tuple[float, ...] = parse(tuple[float, ...], text.split(","), where=lambda path: "--radii")
    if not all(0 <= radius < float("inf") for radius in radii):
        raise RecipeError(f"--radii: expected numbers from 0 on, such as 0,0.25,0.5; got {text!r}")
    return tuple(sorted(set(radii)))


def _sampling(method: str, sampling: str | None, radii: Sequence[float] | None) -> Any:
    """A way of sampling as a recipe says it; one that decides about radii is told those that are shown."""
    import dataclasses

    from holdfast.recipe.schema import FAMILIES, hints_of
    from holdfast.types import Certifier

    kind = FAMILIES[Certifier].get(method)
    family = FAMILIES.get(hints_of(kind).get("sampling")) if kind is not None else None
    entry = family.get(sampling or "") if family is not None else None
    asks = entry is not None and "radii" in {field.name for field in dataclasses.fields(entry)}
    if asks and radii is None:
        raise RecipeError(f"--sampling {sampling}: expected --radii, which it decides about, such as 0,0.25,0.5")
    return {sampling: {"radii": list(radii or ())}} if asks else sampling


def refute(runs: Sequence[RunDirectory]) -> None:
    """Say on stderr which certificates of runs another check refutes, and end with 1 if there are any."""
    import polars as pl

    from holdfast.cli.summary import rows_of
    from holdfast.results.certified_radii import contradictions

    refuted = contradictions(pl.concat(rows_of(runs)))
    for (run, weights, check), pairs in refuted.group_by("run", "weights", "check", maintain_order=True):
        worst, examples = pairs.row(0, named=True), pairs["example"].n_unique()
        claim = f"radius {worst['radius']:.4g} of example {worst['example']}"
        fact = f"'{worst['found_by']}' has another answer at {worst['distance']:.4g}"
        line = f"{run} ({weights}): '{check}' is refuted on {examples} examples: {claim}, but {fact}"
        echo(f"holdfast: error: {line}", err=True)
    if len(refuted):
        raise typer.Exit(1)
