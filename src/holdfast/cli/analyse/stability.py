"""`holdfast analyse stability`: what Gaussian noise does to features and loss, and what that says of the curvature."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.analyse.asking import About, about, asking, block, measured, numbers
from holdfast.cli.networks import Ready
from holdfast.cli.output import echo
from holdfast.cli.screen import percent, table
from holdfast.errors import RecipeError

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.analysis.measuring import Measure
    from holdfast.analysis.store import Answer


def ask(
    ready: Ready,
    quiet: bool,
    sigma: Annotated[float, typer.Option("--sigma", help="Deviation of the noise, which is not clipped.")] = 0.06,
    deltas: Annotated[str, typer.Option("--deltas", help="Distances of features.")] = "0.1,0.2,0.5,1,2,5,10,20",
    copies: Annotated[int, typer.Option("--copies", min=2, help="Noisy copies of each image.")] = 100,
    draws: Annotated[int, typer.Option("--draws", min=2, help="Random directions for the curvature.")] = 20,
    step: Annotated[float | None, typer.Option("--step", help="Of the finite differences; as sigma.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Differentiate twice instead.")] = False,
) -> "Answer":
    """How far Gaussian noise moves features and loss, and the bounds on curvature that follow (theorem 6.1)."""
    from holdfast.analysis.stability import longest_row
    from holdfast.analysis.stability_bounds import quadratic_share, stability_curve
    from holdfast.analysis.store import write_answer

    step = sigma if step is None else step  # curvature at the distance of the noise, over which the loss is expanded
    for option, value in (("--sigma", sigma), ("--step", step)):
        if not 0 < value < float("inf"):
            raise RecipeError(f"{option}: expected a positive number, got {value:g}")
    sizes = numbers("--deltas", deltas)
    settings = {
        "sigma": sigma, "deltas": [*sizes], "copies": copies, "draws": draws, "step": None if exact else step,
        "block": block(ready),
    }  # fmt: skip
    row = longest_row(ready.subjects[0].model)
    asked = about(ready, "stability", settings, {"longest_row": row})
    rows = measured(ready, quiet, asked, _measure(asked))
    curve = stability_curve(rows, deltas=sizes, draws=copies, sigma=sigma, longest_row=row)
    found = {
        "longest_row": row,
        "largest_logit": rows["largest_logit"].max(),
        "quadratic_share": quadratic_share(rows, sigma=sigma),
        "curve": [asdict(one) for one in curve],
    }
    answer = replace(asked.question, result=found)
    write_answer(ready.run.path, answer)
    return answer


def _measure(asked: About) -> "Measure":
    """What is asked of a batch: stability, and the curvature to compare its bounds with."""
    from holdfast.analysis.curvature import input_curvature
    from holdfast.analysis.stability import stability
    from holdfast.models.head import Whole

    settings: Any = asked.question.settings
    model: Any = asked.model
    whole = Whole("analyse stability")

    def ask_batch(x: "Tensor", y: "Tensor", rng: Any) -> dict[str, "Tensor"]:
        whole.head_of(model, x)
        bend = input_curvature(model, x, y, draws=settings["draws"], step=settings["step"], rng=rng)
        moved = stability(
            model, x, y, sigma=settings["sigma"], deltas=settings["deltas"], draws=settings["copies"], rng=rng
        )
        return {**vars(bend), **vars(moved)}

    return ask_batch


def show(answer: "Answer") -> None:
    """A row for each distance, and what the bounds rest on."""
    from holdfast.analysis.spread import give_or_take

    result, settings = answer.result, answer.settings
    rows = []
    for one in result["curve"]:
        gap, loose = one["loss_gap"], one["looseness"]
        rows.append([
            f"{one['delta']:g}", _inside(**one["eta"]),
            "" if gap is None else f"{gap['mean']:z.4f} {give_or_take(gap['half'], '{:z.4f}'.format)}",
            str(one["outside"]),
            percent(one["below_upper"]), "" if loose is None else f"{loose:.2g}",
            percent(one["above_lower"]), percent(one["vacuous"]),
        ])  # fmt: skip
    columns = ["distance", "inside, 95 %", "loss gap, 95 %", "images with draws outside", "below upper bound",
               "bound / curvature", "above lower bound", "lower bound says nothing"]  # fmt: skip
    table(
        columns,
        rows,
        title=f"noise of {settings['sigma']:g}, {settings['copies']} copies of {settings['examples']} images",
    )
    echo(
        f"upper bounds use the largest logit seen, {result['largest_logit']:.4g}, and the head's longest row, "
        f"{result['longest_row']:.4g}"
    )
    if (share := result["quadratic_share"]) is not None:
        echo(
            f"the theorem takes the loss for quadratic: its mean squared change is {share:.3g} times that of its "
            "quadratic part (median; 1 for a quadratic)"
        )


def _inside(mean: float, deviation: float | None, half: float | None) -> str:
    from holdfast.analysis.spread import give_or_take

    return f"{percent(mean)} {give_or_take(half, lambda half: f'{100 * half:.1f}')}"


command = asking(ask, show)
