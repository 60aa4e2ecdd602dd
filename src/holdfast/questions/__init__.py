"""Questions about networks: one unit for each, found by its name without importing torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from holdfast.questions.question import Question

HOMES = {
    "thickness": "thickness:Thickness",
    "flatness": "flatness:Flatness",
    "gradient_norm": "gradient_norm:GradientNorm",
    "classes": "classes:Classes",
    "features": "features:Features",
    "surface": "surface:LossSurface",
    "confidences": "confidences:Confidences",
    "sra": "sra:SmoothedRobustness",
    "mixing": "mixing:Mixtures",
    "neighbours": "neighbours:Neighbours",
    "curvature": "curvature:Curvature",
    "stability": "stability:NoiseStability",
    "segment": "segment:Segments",
}
"""Module and class of each question, in the order of a page."""


class _Registry(Mapping[str, type[Question]]):
    """The classes of all questions by name; each is imported when it is first used."""

    def __getitem__(self, name: str) -> type[Question]:
        module, _, attribute = HOMES[name].partition(":")
        kind: type[Question] = getattr(import_module(f"holdfast.questions.{module}"), attribute)
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)


QUESTIONS: Mapping[str, Any] = _Registry()

__all__ = ["QUESTIONS", "Question"]
