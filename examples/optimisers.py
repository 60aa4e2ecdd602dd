"""Why the choice of the optimiser can cost robustness, in three weights: figures 4.7 to 4.9, tables 4.8 and 4.9.

`python examples/optimisers.py optimisers.html` trains one linear model with gradient descent, signGD, Adam and RMSProp
from the same start, in the spatial domain and in the domain of frequencies, prints where they end and writes one page
of charts. `--samples 1000` takes gradients of fresh samples instead of the population's.
"""

from __future__ import annotations

import argparse
import html
import json
import math
from collections.abc import Iterator
from pathlib import Path

import plotly.graph_objects as go
import torch
from rich.console import Console
from torch import Tensor

from holdfast.rng import Streams
from holdfast.show.chart import Chart
from holdfast.show.figures import figure
from holdfast.show.table import Table
from holdfast.show.terminal import draw
from holdfast.theory import linear_dynamics as theory
from holdfast.theory.linear_dynamics import presentation

EPS = math.sqrt(2)
"""Of the attack: the adversarial risk of a minimiser is then the squared norm of its weights."""

RATE = 0.01
OPTIMISERS: dict[str, theory.Optimiser] = {
    "GD": theory.GD(rate=RATE),
    "signGD": theory.SignGD(rate=RATE),
    "Adam": theory.Adam(rate=RATE),
    "RMSProp": theory.RMSProp(rate=RATE),
}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7f5f00", "#56b4e9")
INKS = {f"var(--series-{i})": colour for i, colour in enumerate(COLOURS)} | {
    "var(--ink)": "#222222",
    "var(--quiet)": "#777777",
    "var(--line)": "#dddddd",
    "var(--raised)": "#ffffff",
}


def paths(steps: int, moments: Tensor | None = None, basis: Tensor | None = None) -> dict[str, Tensor]:
    """The path of each optimiser on the problem of figure 4.7, in the spatial domain unless a basis is given."""
    problem, start = theory.thesis_problem(), theory.thesis_start()
    basis = theory.dct_basis(3) if basis is None else basis
    return {
        name: theory.descend(problem, optimiser, start, steps=steps, basis=basis, moments=moments)
        for name, optimiser in OPTIMISERS.items()
    }


def random_problems(count: int = 400, steps: int = 1000) -> tuple[theory.Problem, Tensor, Tensor]:
    """Problems with the spectrum of figure 4.7, their starts, and the shift of the irrelevant weight under signGD."""
    draws = Streams(0, "problems", count).normal(torch.empty(count, 2, 3, dtype=torch.float64))
    target, start = 3 * draws[:, 0] * theory.vector(1, 1, 0), draws[:, 1]
    problem = theory.Problem(variances=theory.thesis_problem().variances, target=target)
    path = theory.descend(problem, OPTIMISERS["signGD"], start, steps=steps, basis=theory.dct_basis(3))
    return problem, start, path[-1, :, 2] - start[:, 2]


def tables(steps: int, moments: Tensor | None = None) -> Iterator[Table | str]:
    """What is printed."""
    problem = theory.thesis_problem()
    for title, basis in (("Spatial domain", theory.dct_basis(3)), ("Frequency domain", torch.eye(3).double())):
        yield f"{title}, {steps} steps:"
        yield presentation.end_table(problem, paths(steps, moments, basis), EPS)
    yield presentation.spatial_table()
    yield presentation.sign_table()


def charts(steps: int, moments: Tensor | None = None) -> Iterator[tuple[Chart, list[str]]]:
    """Each chart of the page, with the names of its runs."""
    trained, names = paths(steps, moments), list(OPTIMISERS)
    yield presentation.error_chart(theory.thesis_problem(), trained), names
    yield presentation.risk_chart(theory.thesis_problem(), trained, EPS), names
    yield presentation.end_chart(1.0), ["signGD"]
    yield presentation.start_chart(1.0), ["signGD"]
    yield presentation.start_chart(1 / 9), ["signGD"]
    problem, starts, shifts = random_problems()
    yield presentation.shift_chart(problem, starts, shifts), ["signGD"]
    yield presentation.ratio_chart(problem, starts, shifts), ["signGD"]


def drawn(chart: Chart, names: list[str], identifier: str) -> go.Figure:
    """A chart in plain colours, with one entry of the legend for each name."""
    text = json.dumps(figure(chart, names, identifier).spec)
    for variable, colour in INKS.items():
        text = text.replace(variable, colour)
    spec = json.loads(text)
    listed: set[str] = set()
    for trace in spec["data"]:
        trace |= {"legendgroup": trace["name"], "showlegend": trace["name"] not in listed}
        listed.add(trace["name"])
    return go.Figure(spec).update_layout(showlegend=True, height=480)


def page(steps: int, moments: Tensor | None = None) -> str:
    """The charts below each other."""
    parts = ["<!doctype html><meta charset='utf-8'><title>Optimisers</title>"]
    for number, (chart, names) in enumerate(charts(steps, moments)):
        name = f"chart-{number}"
        body = drawn(chart, names, name).to_html(full_html=False, include_plotlyjs=number == 0, div_id=name)
        parts += [f"<h2>{html.escape(chart.title)}</h2>", body]
    return "\n".join(parts)


def main() -> None:
    """Train, print, draw."""
    parser = argparse.ArgumentParser(description="Optimisers on linear regression with an irrelevant frequency.")
    parser.add_argument("page", type=Path, nargs="?", default=Path("optimisers.html"))
    parser.add_argument("--steps", type=int, default=3000, help="Steps of training (default: 3000).")
    parser.add_argument(
        "--samples", type=int, default=0, help="Samples per gradient, 0 for the population (default: 0)."
    )
    parser.add_argument("--seed", type=int, default=0, help="Random seed of the samples (default: 0).")
    options = parser.parse_args()
    if options.steps < 1 or options.samples < 0:
        parser.error(f"expected steps of at least 1 and samples of at least 0, got {options.steps}, {options.samples}")
    moments = None
    if options.samples:
        rng = Streams(options.seed, "samples", options.steps)
        moments = theory.sampled_moments(theory.thesis_problem(), options.steps, options.samples, rng)
    draw(tables(options.steps, moments), Console())
    options.page.write_text(page(options.steps, moments), encoding="utf-8")
    print(f"page: {options.page}")


if __name__ == "__main__":
    main()
