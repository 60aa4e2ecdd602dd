"""Figures 4.7 to 4.9 and tables 4.8 and 4.9, drawn from the mathematics."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from fractions import Fraction

import torch
from torch import Tensor

from holdfast.show.chart import Chart, Curve
from holdfast.show.table import Cell, Table
from holdfast.theory.linear_dynamics.partitions import Regions, end_regions, sign_step, start_regions
from holdfast.theory.linear_dynamics.predictions import predicted_shift, risk_ratio
from holdfast.theory.linear_dynamics.problem import (
    Problem,
    adversarial_risk,
    dct_basis,
    error,
    gd_limit,
    spatial_coefficients,
    standard_risk,
)
from holdfast.theory.linear_dynamics.signs import SignCase, sign_cases

Paths = Mapping[str, Tensor]
"""Name of each optimiser and what `descend` returned for it, (steps + 1, d)."""

DRAWN = 200
"""Steps of a path that are drawn."""


def error_chart(problem: Problem, paths: Paths) -> Chart:
    """Figure 4.7a: length of the error of each weight over the steps."""
    curves = [
        _over_steps(run, f"|e{i}|", error(problem, path)[:, i].abs())
        for run, path in enumerate(paths.values())
        for i in range(problem.dimensions)
    ]
    return Chart("Errors of the weights", "step", tuple(curves), share=False, log_x=True)


def risk_chart(problem: Problem, paths: Paths, eps: float) -> Chart:
    """Figure 4.7b: risk over the steps, clean and attacked."""
    curves = [
        _over_steps(run, kind, risk)
        for run, path in enumerate(paths.values())
        for kind, risk in (
            ("standard", standard_risk(problem, path)),
            ("adversarial", adversarial_risk(problem, path, eps)),
        )
    ]
    return Chart(f"Risk, eps {eps:.4g}", "step", tuple(curves), share=False, log_x=True, log_y=True)


def end_table(problem: Problem, paths: Paths, eps: float) -> Table:
    """Weights and risks where each path ends, and the adversarial risk over that of gradient descent in the limit."""
    rows = []
    for name, path in paths.items():
        w, limit = path[-1], gd_limit(problem, path[0])
        standard, adversarial = standard_risk(problem, w), adversarial_risk(problem, w, eps)
        ratio = adversarial / adversarial_risk(problem, limit, eps)
        values = (*w, w.square().sum(), standard, adversarial, ratio)
        rows.append((name, [Cell(f"{float(value):.4g}", value=float(value)) for value in values]))
    columns = [*(f"w{i}" for i in range(problem.dimensions)), "|w|²", "standard", "adversarial", "over GD's limit"]
    return Table(f"Weights and risks at the end, eps {eps:.4g}", "optimiser", columns, rows)


def spatial_table() -> Table:
    """Table 4.8: inputs of three frequencies, of which some are relevant, in the spatial domain."""
    subsets = (kept for size in (1, 2, 3) for kept in itertools.combinations(range(3), size))
    rows = [(", ".join(f"X{i}" for i in kept), _spatial_cells(kept)) for kept in subsets]
    return Table("Inputs in the spatial domain", "frequencies", ["x0", "x1", "x2"], rows)


def sign_table() -> Table:
    """Table 4.9: the steps of signGD by the signs of A, A + B and A - B."""
    rows = [
        (" ".join(f"{sign:+d}" if sign else "0" for sign in case.signs), _case_cells(case)) for case in sign_cases()
    ]
    return Table("What a step of signGD subtracts, in learning rates", "signs", ["e0", "e1", "e2", "lengths"], rows)


def end_chart(slope: float, side: int = 40) -> Chart:
    """Figure 4.8: the partition R with the path from one pair of each region, 12 steps long."""
    a, b = _grid(-1.0, 1.0, 4.0, side)
    return _region_chart(f"Partition R, slope {slope:.4g}", a, b, end_regions(a, b, slope), slope, steps=12)


def start_chart(slope: float, side: int = 40) -> Chart:
    """Figure 4.9: the partition P with the path from one pair of each region to :math:`|A| < 1`."""
    a, b = (x.abs() for x in _grid(0.0, 6.0, 6.0, side))
    return _region_chart(f"Partition P, slope {slope:.4g}", a, b, start_regions(a, b, slope), slope, steps=18)


def shift_chart(problem: Problem, starts: Tensor, shifts: Tensor) -> Chart:
    """Observed against predicted shift of the irrelevant weight, one point for each of many problems."""
    return _comparison("Shift of the irrelevant weight", predicted_shift(problem, starts), shifts)


def ratio_chart(problem: Problem, starts: Tensor, shifts: Tensor) -> Chart:
    """Observed against predicted ratio of the adversarial risks of signGD and gradient descent."""
    predicted = risk_ratio(problem, starts, predicted_shift(problem, starts))
    return _comparison("Adversarial risk over that of gradient descent", predicted, risk_ratio(problem, starts, shifts))


def _over_steps(run: int, kind: str, values: Tensor) -> Curve:
    last = len(values) - 1
    steps = sorted({round(last ** (i / (DRAWN - 1))) for i in range(DRAWN)})
    return Curve(run, kind, tuple(map(float, steps)), tuple(values[steps].tolist()))


def _comparison(title: str, predicted: Tensor, observed: Tensor) -> Chart:
    low, high = float(predicted.min()), float(predicted.max())
    points = Curve(0, "observed", tuple(predicted.tolist()), tuple(observed.tolist()), form="points")
    line = Curve(0, "predicted", (low, high), (low, high))
    return Chart(title, "predicted", (line, points), share=False, from_zero=False)


def _region_chart(title: str, a: Tensor, b: Tensor, regions: Regions, slope: float, steps: int) -> Chart:
    curves = []
    for name, mask in regions.items():
        if bool(mask.any()):
            curves.append(Curve(0, name, tuple(a[mask].tolist()), tuple(b[mask].tolist()), form="points"))
            middle = int(mask.sum()) // 2
            curves.append(_orbit(a[mask][middle], b[mask][middle], slope, steps))
    return Chart(title, "A", tuple(curves), share=False, from_zero=False)


def _orbit(a: Tensor, b: Tensor, slope: float, steps: int) -> Curve:
    pairs = [(a, b)]
    for _ in range(steps):
        pairs.append(sign_step(*pairs[-1], slope))
    x, y = zip(*pairs, strict=True)
    return Curve(0, "path of signGD", tuple(map(float, x)), tuple(map(float, y)))


def _grid(left: float, right: float, top: float, side: int) -> tuple[Tensor, Tensor]:
    """Pairs of A from left to right and B from -top or 0 to top, none of them on a border."""
    x = left + (right - left) * (torch.arange(side, dtype=torch.float64) + 0.37) / side
    y = top * (2 * (torch.arange(side, dtype=torch.float64) + 0.41) / side - 1)
    a, b = torch.meshgrid(x, y if left < 0 else (y + top) / 2, indexing="xy")
    return a.flatten(), b.flatten()


def _spatial_cells(kept: tuple[int, ...]) -> list[Cell]:
    basis = dct_basis(3)
    relevant = torch.tensor([i in kept for i in range(3)])
    rows = spatial_coefficients(basis, relevant).tolist()
    return [
        Cell(" ".join(f"{_signed_root(c)} X{i}" for i, c in enumerate(row) if c) or "0", words=True) for row in rows
    ]


def _case_cells(case: SignCase) -> list[Cell]:
    if case.change is None:
        return [Cell("impossible", words=True), *[Cell("", words=True)] * 3]
    return [*(Cell(_signed_root(x), words=True, value=x) for x in case.change), Cell(case.comparison, words=True)]


def _signed_root(value: float) -> str:
    """A number whose square is a simple fraction."""
    square = Fraction(value * value).limit_denominator(100)
    return f"{'-' if value < 0 else '+'}√({square})" if square else "0"
