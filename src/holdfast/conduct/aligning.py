"""Alignments of a trained network, with their controls, as runs of one recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import RecipeError
from holdfast.recipe import plain
from holdfast.recipe.load import recipes_of
from holdfast.recipe.schema import DataRecipe, Recipe
from holdfast.runs.card import Card, path_of, read_card
from holdfast.types import Architecture

CONTROLS = ("batchnorm", "epoch", "smoothing", "itself")
"""What alignment is compared with: its passes at rate 0, which move statistics of BatchNorm alone; as much ordinary
training; the same with label smoothing of 0.1; and alignment to the source itself."""


@dataclass(frozen=True, kw_only=True)
class AlignmentPlan:
    """How a network is aligned; the defaults are those that were published for convolutional networks.

    Args:
        lr: learning rate of SGD with momentum 0.9 (Nesterov) and weight decay 1e-4, on a cosine schedule; published for
            transformers is 0.1, with `clip` 1 and batches of 512.
        epochs: passes over the training images of the source.
        batch_size: images per step.
        warmup: epochs of linear rise before; the thesis says that there is one, public code has none.
        clip: largest norm of the gradient.
        temperature: of the divergence of answers.
        embedding: distance of features: rkd, ega, hint or nce.
        output: weight of the divergence of answers; None for 1, and for 0 beside an `embedding`.
        batch_norm: train, frozen or recalibrate.
        held_out: run of a network that is neither source, witness nor target, on which the best epoch is chosen, by how
            well `mi` in linf 8/255 transfers to it; of the controls, too. None for the last epoch.
        patience: stop after so many epochs without a better one.
    """

    lr: float = 1e-3
    epochs: int = 1
    batch_size: int = 128
    warmup: float = 0.0
    clip: float | None = None
    temperature: float = 4.0
    embedding: str | None = None
    output: float | None = None
    batch_norm: str = "train"
    held_out: str | None = None
    patience: int | None = None

    def train(self, objective: Any, source: str, *, lr: float | None = None) -> dict[str, Any]:
        """The training of a run, in plain values."""
        sgd = {"lr": self.lr if lr is None else lr, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4}
        return {
            "objective": objective, "epochs": self.epochs, "batch_size": self.batch_size, "optimizer": {"sgd": sgd},
            "schedule": "cosine", "warmup": self.warmup, "clip": self.clip, "init_from": source,
            **({} if self.held_out is None else {"selection": self.selection}),
        }  # fmt: skip

    @property
    def selection(self) -> dict[str, Any]:
        """Which epoch is the best, in plain values."""
        return {"metric": "transfer_rate", "attack": "mi", "target": self.held_out, "patience": self.patience}

    def objective(self, witnesses: Sequence[str]) -> dict[str, Any]:
        """Alignment to these witnesses, in plain values."""
        output = self.output if self.output is not None else (1.0 if self.embedding is None else 0.0)
        fields = {"temperature": self.temperature, "embedding": self.embedding, "batch_norm": self.batch_norm}
        return {"align": {"witnesses": list(witnesses), "output": output, **fields}}


def alignment_recipes(
    source: Path | str,
    witnesses: Sequence[Path | str],
    plan: AlignmentPlan | None = None,
    *,
    controls: bool = False,
    name: str | None = None,
) -> list[Recipe]:
    """The runs of an alignment: the aligned network, and its controls if they are wanted.

    Args:
        source: directory of a run, or one weights file.
        witnesses: the same, of the networks that it is aligned with.
        plan: how.
        controls: whether `CONTROLS` are trained, too.
        name: of the recipe; None for that of the source with `-aligned`.

    Raises:
        HoldfastError: if a file cannot be read, or the fields contradict each other.
    """
    if not witnesses:
        raise RecipeError("align: expected at least one witness")
    plan, card = plan or AlignmentPlan(), read_card(source)
    if plan.patience is not None and plan.held_out is None:
        raise RecipeError("align: patience: expected a held-out network beside it; got none")
    cards = [read_card(path_of(str(witness), card.recipe.seed)) for witness in witnesses]
    of, paths = str(source), [str(witness) for witness in witnesses]
    own, aligned = _variant(card), plan.objective(paths)
    label = f"{own}-by-{'+'.join(_variant(one) for one in cards)}"
    variants: dict[str, Mapping[str, Any]] = {label: plan.train(aligned, of)}
    if controls:
        variants |= {
            f"{label}-at-rate-0": plan.train(aligned, of, lr=0.0),
            f"{own}-more-training": plan.train("standard", of),
            f"{own}-label-smoothing": plan.train({"standard": {"label_smoothing": 0.1}}, of),
            f"{own}-by-itself": plan.train(plan.objective([of]), of),
        }
    content = {
        "name": name or f"{card.recipe.name.split('/')[0]}-aligned",
        "seed": card.recipe.seed,
        "data": plain(card.recipe.data, DataRecipe),
        "model": plain(card.recipe.model, Architecture),
        "checks": ["clean"],
        "variants": {variant: {"train": train} for variant, train in variants.items()},
    }
    return recipes_of(content, file=Path("align"))


def _variant(card: Card) -> str:
    """What a run is called within its recipe."""
    parts = card.recipe.name.split("/")
    return parts[1] if len(parts) > 2 else parts[0]
