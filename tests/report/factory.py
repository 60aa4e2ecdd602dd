"""Synthetic run directories: everything a report reads, without a model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from holdfast.earlier import with_traits
from holdfast.results import SCHEMA, Ledger

DIGITS = [str(digit) for digit in range(10)]


@dataclass(frozen=True)
class FakeCheck:
    """A check and which examples it leaves right."""

    name: str
    method: str = "clean"
    params: Mapping[str, Any] = field(default_factory=dict)
    correct: Sequence[bool] = ()
    queries: int = 1
    distance: Sequence[float] | None = None
    norm: str = "linf"
    radius: Sequence[float] | None = None
    by: Sequence[str | None] | None = None
    steps: Sequence[Sequence[Mapping[str, Any]]] | None = None
    not_run: Sequence[str | None] | None = None
    gradients: int | None = None
    to_the_end: bool | None = None


def pgd(eps: float, correct: Sequence[bool], *, norm: str = "linf", steps: int = 20, method: str = "pgd") -> FakeCheck:
    params = {"threat": {norm: {"eps": eps}}, "steps": steps, "step_size": eps / 4, "loss": "cross_entropy"}
    return FakeCheck(f"{method} {norm} eps={eps:g} steps={steps}", method, params, correct, queries=steps)


def nearest(
    method: str, eps: float, distance: Sequence[float | None], *, norm: str = "linf", **params: Any
) -> FakeCheck:
    """A minimum-norm attack; None is an example that stands."""
    fields = {"threat": {norm: {"eps": eps}}, **params}
    far = [0.0 if one is None else one for one in distance]
    correct = [one is None for one in distance]
    return FakeCheck(f"{method} {norm} eps={eps:g}", method, fields, correct, distance=far, norm=norm)


def proved(
    radius: Sequence[float | None],
    *,
    norm: str = "l2",
    method: str = "margin",
    wrong: Sequence[int] = (),
    **params: Any,
) -> FakeCheck:
    """A certifier; None is an example without an answer, `wrong` are those with a wrong one."""
    correct = [one is not None and number not in wrong for number, one in enumerate(radius)]
    far = [0.0 if one is None else one for one in radius]
    name = " ".join([method, f"norm={norm}", *(f"{key}={value}" for key, value in params.items())])
    return FakeCheck(name, method, {"norm": norm, **params}, correct, distance=[0.0] * len(far), norm=norm, radius=far)


def composed(outcomes: str, *, eps: float = 0.1, **params: Any) -> FakeCheck:
    """AutoAttack with the components a and b; one letter per example.

    `c` is wrong before, `a` and `b` are broken by that component, `s` stands, `w` waits for b, `x` for both.
    """
    fields = {"threat": {"linf": {"eps": eps}}, "version": "standard", "steps": 100, "targets": 9, "queries": 5000}
    runs = {"c": "", "a": "a", "b": "ab", "s": "ab", "w": "a", "x": ""}
    steps = []
    for letter in outcomes:
        ran = [("clean", letter == "c"), *((step, letter == step) for step in runs[letter])]
        waiting = [step for step in "ab" if letter in "wx" and step not in runs[letter]]
        done = [{"step": step, "broke": broke, "queries": 10, "seconds": 0.5} for step, broke in ran]
        steps.append([*done, *({"step": s, "broke": None, "queries": None, "seconds": None} for s in waiting)])
    return FakeCheck(
        f"autoattack linf eps={eps:g}",
        "autoattack",
        fields | params,
        [letter in "swx" for letter in outcomes],
        by=[{"c": "clean", "a": "a", "b": "b"}.get(letter) for letter in outcomes],
        steps=steps,
    )


def noise(sigma: float, correct: Sequence[bool]) -> FakeCheck:
    return FakeCheck(f"gaussian_noise sigma={sigma:g}", "gaussian_noise", {"sigma": sigma, "variance": None}, correct)


def make_run(
    path: Path,
    checks: Sequence[FakeCheck],
    *,
    name: str = "digits/noisy/seed-0",
    weights: Sequence[str] = ("best",),
    classes: Sequence[str] = ("cat", "dog"),
    facts: Mapping[str, Any] | None = None,
    recipe: str | None = "name: digits\nseed: 0\n",
    epochs: int = 0,
    gallery: str | None = None,
) -> Path:
    """Write a run directory; example i has label i modulo the classes, a wrong prediction is the next class."""
    path.mkdir(parents=True)
    (path / "run.json").write_text(json.dumps(_facts(name, weights, classes) if facts is None else facts))
    if recipe is not None:
        (path / "recipe.yaml").write_text(recipe)
    if epochs:
        (path / "metrics.jsonl").write_text("".join(json.dumps(_epoch(n, epochs)) + "\n" for n in range(1, epochs + 1)))
    if gallery is not None:
        _write_gallery(path / "gallery", gallery, weights[0], len(classes))
    for which in weights:
        for number, check in enumerate(checks):
            Ledger(path / "ledger").append(f"{which}-{number}", _rows(name, which, check, len(classes)))
    return path


def _rows(run: str, weights: str, check: FakeCheck, classes: int) -> pl.DataFrame:
    example = np.arange(len(check.correct))
    right = np.asarray(check.correct, dtype=bool)
    label = example % classes
    radius = None if check.radius is None else np.asarray(check.radius, dtype=float)
    silent = np.zeros_like(right) if radius is None else ~right & (radius == 0)
    columns = {
        "run": run,
        "weights": weights,
        "weights_hash": "ab12",
        "check": check.name,
        "method": check.method,
        "params": json.dumps(check.params),
        "example": example,
        "label": label,
        "prediction": np.where(silent, -1, np.where(right, label, (label + 1) % classes)),
        "correct": right,
        "loss": 0.5 if radius is None else None,
        "distance": 0.1 if check.distance is None else np.asarray(check.distance, dtype=float),
        "norm": check.norm,
        "radius": radius,
        "queries": check.queries,
        "seconds": 0.25,
        "seed": 0,
        "by": None if check.by is None else pl.Series(check.by, dtype=pl.String),
        "steps": None if check.steps is None else pl.Series(list(check.steps), dtype=SCHEMA["steps"]),
        "rank": None if radius is not None else np.where(right, 1, 2),
        "not_run": None if check.not_run is None else pl.Series(check.not_run, dtype=pl.String),
        "gradients": check.gradients,
        "to_the_end": check.to_the_end,
    }
    frame = pl.DataFrame({"example": example})
    kinds = (np.ndarray, pl.Series)
    values = [pl.Series(name, v) if isinstance(v, kinds) else pl.lit(v).alias(name) for name, v in columns.items()]
    return with_traits(frame.with_columns(values)).select(list(SCHEMA))


def _facts(name: str, weights: Sequence[str], classes: Sequence[str]) -> dict[str, Any]:
    return {
        "name": name,
        "recipe": "digits",
        "variant": "noisy",
        "seed": 0,
        "versions": {"holdfast": "0.1.0", "torch": "2.13.0", "python": "3.11.7"},
        "data": {
            "name": "digits",
            "fingerprint": "f" * 64,
            "classes": list(classes),
            "shape": [1, 8, 8],
            "train": 1167,
            "validation": 130,
            "test": 500,
        },
        "model": {"name": "cnn", "parameters": 12345},
        "weights": {w: {"sha256": "ab12" + "0" * 60, "epoch": 17} for w in weights},
        "seconds": {"train": 12.3, "evaluate": 4.5},
    }


def _epoch(number: int, last: int) -> dict[str, Any]:
    share = number / last
    return {
        "epoch": number,
        "step": 10 * number,
        "lr": 0.1 * (1.02 - share),
        "train": {"total": 2.3 * (1 - 0.9 * share), "accuracy": 0.1 + 0.88 * share, "penalty": 0.1 * share},
        "validation": {"loss": 2.3 - 2 * share, "accuracy": 0.1 + 0.85 * share, "robust_accuracy": 0.1 + 0.4 * share}
        if number % 2 == 0
        else None,
        "seconds": 0.5,
    }


def _write_gallery(path: Path, check: str, weights: str, classes: int) -> None:
    path.mkdir()
    rng = np.random.default_rng(0)
    x = np.clip(rng.random((6, 1, 8, 8)), 0, 1).astype(np.float32)
    z = np.clip(x + rng.choice([-0.1, 0.1], x.shape), 0, 1).astype(np.float32)
    label = np.arange(6) % classes
    np.savez(
        path / "0.npz",
        check=np.array(check),
        weights=np.array(weights),
        norm=np.array("linf"),
        x=x,
        z=z,
        example=np.arange(6),
        label=label,
        before=label,
        after=(label + np.arange(6) % 2) % classes,
        distance=np.full(6, 0.1),
    )
