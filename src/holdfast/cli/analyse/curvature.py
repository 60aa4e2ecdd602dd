"""`holdfast analyse curvature`: the curvature of the loss at each image, and right answers under noise."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.analyse.asking import About, about, asking, block, measured
from holdfast.cli.networks import Ready
from holdfast.cli.output import echo
from holdfast.cli.screen import percent, table
from holdfast.errors import ModelError, RecipeError, unknown

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.analysis.measuring import Measure
    from holdfast.analysis.store import Answer
    from holdfast.types import Corruption


def ask(
    ready: Ready,
    quiet: bool,
    draws: Annotated[int, typer.Option("--draws", min=2, help="Random directions of each image.")] = 20,
    step: Annotated[float, typer.Option("--step", help="Of the finite differences.")] = 0.01,
    exact: Annotated[bool, typer.Option("--exact", help="Differentiate twice instead.")] = False,
    normalised: Annotated[
        bool, typer.Option("--normalised", help="In units of the network's normalisation instead of pixels.")
    ] = False,
    lanczos: Annotated[int, typer.Option("--lanczos", min=0, help="Steps to the largest eigenvalue; 0: none.")] = 10,
    noise: Annotated[str, typer.Option("--noise", help="gaussian or uniform.")] = "gaussian",
    strength: Annotated[float, typer.Option("--strength", help="Deviation or largest change of the noise.")] = 0.06,
    copies: Annotated[int, typer.Option("--copies", min=1, help="Noisy copies of each image.")] = 10,
) -> "Answer":
    """How strongly the loss bends at each image, and how that goes with right answers under noise."""
    from holdfast.analysis.curvature_and_noise import summarise
    from holdfast.analysis.store import write_answer

    if not exact and not 0 < step < float("inf"):
        raise RecipeError(f"--step: expected a positive number, got {step:g}")
    disturb = _noise(noise, strength)
    settings = {
        "draws": draws, "step": None if exact else step, "normalised": normalised, "lanczos": lanczos,
        "noise": noise, "strength": strength, "copies": copies, "block": block(ready),
    }  # fmt: skip
    asked = about(ready, "curvature", settings, {})
    rows = measured(ready, quiet, asked, _measure(asked, disturb))
    answer = replace(asked.question, result=asdict(summarise(rows, copies=copies)))
    write_answer(ready.run.path, answer)
    return answer


def _noise(name: str, strength: float) -> "Corruption":
    from holdfast.corruptions import GaussianNoise, UniformNoise

    kinds: dict[str, Any] = {"gaussian": GaussianNoise, "uniform": UniformNoise}
    if name not in kinds:
        raise RecipeError(f"--noise: {unknown(name, kinds)}")
    try:
        made: Corruption = kinds[name](strength)
    except ValueError as error:
        raise RecipeError(f"--strength: {error}") from error
    return made


def _measure(asked: About, noise: "Corruption") -> "Measure":
    """What is asked of a batch: curvature, largest eigenvalue if wanted, right answers under noise."""
    from holdfast.analysis.curvature import curvature_of, in_units, right_under_noise
    from holdfast.analysis.eigenvalue import largest_eigenvalue
    from holdfast.gradients import expansion
    from holdfast.losses import cross_entropy

    settings, unit = asked.question.settings, _unit(asked)

    def ask_batch(x: "Tensor", y: "Tensor", rng: Any) -> dict[str, "Tensor"]:
        around = expansion(cross_entropy, in_units(asked.model, unit), x / unit, y, step=settings["step"])
        found = {**vars(curvature_of(around, draws=settings["draws"], rng=rng))}
        if settings["lanczos"]:
            largest = largest_eigenvalue(around, steps=settings["lanczos"], rng=rng)
            found |= {"eigenvalue": largest.value, "residual": largest.residual}
        right = right_under_noise(asked.model, x, y, noise=noise, draws=settings["copies"], rng=rng)
        return {**found, "right": right}

    return ask_batch


def _unit(asked: About) -> Any:
    """The deviations of the network's normalisation if that was asked for, else 1."""
    from holdfast.models.network import Normalise

    if not asked.question.settings["normalised"]:
        return 1.0
    normalise = getattr(asked.model, "normalise", None)
    if not isinstance(normalise, Normalise):
        kind = type(asked.model).__name__
        raise ModelError(f"--normalised: expected a network that normalises its images; got {kind}, which does not")
    return normalise.std


def show(answer: "Answer") -> None:
    """The network in one row, then figures 8 and 9 in numbers."""
    from holdfast.analysis.spread import give_or_take

    result, settings = answer.result, answer.settings
    how = "exact products" if settings["step"] is None else f"differences at {settings['step']:g}"
    unit = "normalised inputs" if settings["normalised"] else "pixels in [0, 1]"
    bend, largest = result["curvature"], result["eigenvalue"]
    rows = [
        ["curvature, median", f"{result['median']:z.4g}"],
        ["curvature, mean", f"{bend['mean']:z.4g} {give_or_take(bend['half'], '{:z.2g}'.format)}"],
        ["its error for one image", "" if result["relative_error"] is None else percent(result["relative_error"])],
        ["gradient norm, median", f"{result['gradient_norm']:.4g}"],
        ["largest eigenvalue, median", "not asked" if largest is None else f"{largest:z.4g}"],
        ["right under noise", percent(result["right_under_noise"])],
    ]
    title = f"curvature of the loss in {unit}, {settings['draws']} {how}, {result['examples']} images"
    echo(title)
    table(["quantity", "value"], rows)
    kept = [
        [percent(one["share"]), percent(one["accuracy"]), _interval(one["interval"], percent)]
        for one in result["lowest"]
    ]
    table(["lowest curvature", "right under noise", "95 %"], kept)
    groups = [
        [
            str(one["right"]),
            str(one["examples"]),
            f"{one['curvature']['mean']:z.4g}",
            give_or_take(one["curvature"]["half"], "{:.2g}".format),
        ]
        for one in result["groups"]
    ]
    table([f"right of {settings['copies']}", "images", "mean curvature", "95 %"], groups)
    echo(f"correlation of right answers with mean curvature: {_correlation(result['correlation_of_means'])} groups")
    echo(f"correlation of right answers with curvature: {_correlation(result['correlation'])} images")


def _correlation(found: Any) -> str:
    if found["value"] is None:
        return f"unknown, one of the two does not vary over {found['points']}"
    ends = "" if found["interval"] is None else f" {_interval(found['interval'], '{:z.2f}'.format)}"
    return f"{found['value']:z.2f}{ends}, over {found['points']}"


def _interval(ends: Any, write: Any) -> str:
    return f"[{write(ends['low'])}, {write(ends['high'])}]"


command = asking(ask, show)
