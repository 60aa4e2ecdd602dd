"""Linear regression that fits perfectly and yet is vulnerable to attacks, and the effect of regularisers.

`python examples/linear_regression.py linear_regression.html` trains the same linear model with plain gradient descent,
ridge regression, the exact regulariser of `holdfast.theory.linear_regression` and against one fixed attack, prints the
results and writes one page of charts. The data uses one of the inputs; the attack moves all others.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import plotly.graph_objects as go
import torch
from plotly.subplots import make_subplots
from torch import Tensor

from holdfast.rng import Streams
from holdfast.theory import linear_regression as theory

DATA = theory.Moments(mean=0.5, square=1.0)
RATE, DECAY = 0.5, 0.1
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
SMALLEST = 1e-6
"""Lower end of the charts."""
GROWTH = (2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Dimensions of the last chart."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Settings of the experiment.

    Args:
        dimensions: inputs, of which the data uses the first.
        sigma: standard deviation of the initial weights.
        eps: how far the attack moves every other input.
        steps: number of steps of gradient descent.
        seed: random seed of the initial weights.
    """

    dimensions: int = 100
    sigma: float = 0.1
    eps: float = 0.1
    steps: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        if self.dimensions < 2 or self.steps < 1 or not self.sigma > 0 or not self.eps > 0:
            raise ValueError(f"expected two or more dimensions, steps, and a positive sigma and eps; got {self}")

    def start(self, dimensions: int, draws: int = 1) -> Tensor:
        """Normal weights, (draws, dimensions)."""
        return self.sigma * Streams(self.seed, "start", draws).normal(torch.empty(draws, dimensions).double())


def descents(setting: Setting) -> dict[str, theory.Descent]:
    """The model trained in four ways from the same weights."""
    start, eps = setting.start(setting.dimensions)[0], setting.eps
    fixed = theory.perturbation(start, eps)
    gradients: dict[str, theory.Gradient] = {
        "plain descent": lambda w: theory.population_gradient(w, DATA),
        "ridge": lambda w: theory.ridge_gradient(w, DECAY, DATA),
        "exact regulariser": lambda w: theory.attacked_gradient(w, eps, DATA),
        "against the first attack": lambda w: theory.perturbed_gradient(w, fixed, DATA),
    }
    return {
        name: theory.descend(gradient, start, rate=RATE, steps=setting.steps, eps=eps, data=DATA)
        for name, gradient in gradients.items()
    }


def growth(setting: Setting, draws: int = 200) -> tuple[list[float], list[float]]:
    """Loss under attack where plain descent ends, by dimension: the mean over starts, and its closed form."""
    ends = [theory.population_limit(setting.start(dimensions, draws)) for dimensions in GROWTH]
    seen = [float(theory.attacked_loss(w, setting.eps, DATA).mean()) for w in ends]
    return seen, [theory.expected_attacked_loss(dimensions, setting.sigma, setting.eps) for dimensions in GROWTH]


def summary(results: Mapping[str, theory.Descent], setting: Setting) -> list[str]:
    """The final numbers of each training, and Taylor expansions of the attack on plain descent."""
    lines = [f"{'objective':<26}{'w1':>9}{'|w2..d|_1':>11}{'loss':>12}{'attacked':>12}"]
    for name, path in results.items():
        w = path.weights[-1]
        numbers = f"{float(w[0]):>9.4f}{float(w[1:].abs().sum()):>11.4f}"
        lines.append(f"{name:<26}{numbers}{float(path.population[-1]):>12.3g}{float(path.attacked[-1]):>12.3g}")
    w = results["plain descent"].weights[min(2, setting.steps)]
    step = theory.perturbation(w, setting.eps)
    first, second = (float(theory.expanded_loss(w, step, DATA, order)) for order in (1, 2))
    true = float(theory.attacked_loss(w, setting.eps, DATA))
    lines.append(f"plain descent, early: attacked {true:.6g}, by first order {first:.6g}, by second {second:.6g}")
    return lines


def page(results: Mapping[str, theory.Descent], setting: Setting) -> go.Figure:
    """Four charts: loss and loss under attack over the steps, loss under attack over eps and over the dimension."""
    eps = f"{setting.eps:g}"
    titles = (
        "Loss",
        f"Loss under attack, eps {eps}",
        "Loss under attack at the end",
        "After plain descent, by dimension",
    )
    figure = make_subplots(rows=2, cols=2, subplot_titles=titles, horizontal_spacing=0.1, vertical_spacing=0.14)
    radii = torch.linspace(0, 2 * setting.eps, 21, dtype=torch.float64)
    for colour, (name, path) in zip(COLOURS, results.items(), strict=True):
        steps, last = list(range(len(path.population))), path.weights[-1]
        curve = [float(theory.attacked_loss(last, float(radius), DATA)) for radius in radii]
        places = ((1, 1, steps, path.population.tolist()), (1, 2, steps, path.attacked.tolist()))
        for row, column, x, y in (*places, (2, 1, radii.tolist(), curve)):
            line(figure, row, column, x, y, name, colour, legend=(row, column) == (1, 1))
    highest = 8 * max(float(path.attacked.max()) for path in results.values())  # twice eps costs four times as much
    seen, expected = growth(setting)
    line(figure, 2, 2, GROWTH, expected, "expected, d²", "#666666", legend=True, dash="dot")
    line(figure, 2, 2, GROWTH, seen, "mean of 200 starts", "#000000", legend=True)
    for number, title in enumerate(("steps", "steps", "eps of the attack", "dimension d"), 1):
        figure.update_layout({f"xaxis{number}": {"title": title}})
    figure.update_xaxes(type="log", row=2, col=2)
    figure.update_yaxes(type="log", exponentformat="power")
    for row, column in ((1, 1), (1, 2), (2, 1)):  # smaller values count as zero
        figure.update_yaxes(range=[math.log10(SMALLEST), math.log10(highest)], row=row, col=column)
    title = f"Linear regression, {setting.dimensions} inputs of which the data uses one; eps {eps}"
    return figure.update_layout(
        title=title, template="plotly_white", height=800, legend={"orientation": "h", "y": -0.1}
    )


def line(
    figure: go.Figure, row: int, column: int, x: Sequence[float], y: Sequence[float], name: str, colour: str, *,
    legend: bool, dash: str = "solid",
) -> None:  # fmt: skip
    """One line of one chart."""
    style = {"color": colour, "dash": dash}
    trace = go.Scatter(x=list(x), y=list(y), name=name, mode="lines", line=style, legendgroup=name, showlegend=legend)
    figure.add_trace(trace, row=row, col=column)


def main() -> None:
    """Train the models, print the results and draw the charts."""
    parser = argparse.ArgumentParser(description="Linear regression with unused inputs: attacked and regularised.")
    parser.add_argument("page", type=Path, nargs="?", default=Path("linear_regression.html"))
    defaults = Setting()
    for name in ("dimensions", "steps", "seed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(defaults, name))
    for name in ("sigma", "eps"):
        parser.add_argument(f"--{name}", type=float, default=getattr(defaults, name))
    options = vars(parser.parse_args())
    path: Path = options.pop("page")
    try:
        setting = Setting(**options)
    except ValueError as error:
        parser.error(str(error))
    results = descents(setting)
    print("\n".join(summary(results, setting)))
    path.write_text(page(results, setting).to_html(include_plotlyjs=True, div_id="story"), encoding="utf-8")
    print(f"page: {path}")


if __name__ == "__main__":
    main()
