"""The networks of a matrix of transfer: which they are, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.ensembles import DefendedRun, InputDefence
from holdfast.errors import CheckpointError, RecipeError
from holdfast.models.weights import read_metadata
from holdfast.objectives.alignment import Align
from holdfast.recipe.matrix import Matrix
from holdfast.recipe.plain import describe
from holdfast.recipe.schema import Recipe
from holdfast.runs.card import Card, path_of, read_card
from holdfast.runs.networks import fits
from holdfast.runs.splits import Splits
from holdfast.show.names import labels


@dataclass(frozen=True)
class Entry:
    """A network of a matrix.

    Args:
        name: in the matrix.
        path: of its run or weights file, as the matrix has it.
        card: what its weights say.
        is_source: whether it is attacked.
        is_target: whether points are tried on it.
    """

    name: str
    path: Path
    card: Card
    is_source: bool
    is_target: bool


def entries_of(matrix: Matrix) -> list[Entry]:
    """The networks of a matrix, the sources first.

    Raises:
        RecipeError: if one is not there, or named by two paths.
    """
    sources, targets = matrix.sources, matrix.targets or matrix.sources
    paths = list(dict.fromkeys((*sources, *targets)))
    cards = []
    for stated in paths:
        try:
            cards.append(read_card(path_of(stated, matrix.seed)))
        except CheckpointError as error:
            raise RecipeError(f"{matrix.name}: {error}") from error
    files_ = [str(card.file.resolve()) for card in cards]
    if len(set(files_)) < len(files_):
        raise RecipeError(f"{matrix.name}: expected each network once; {cards[0].file.name} has several paths")
    names = labels([card.recipe.name for card in cards])
    entries = [
        Entry(name, path_of(path, matrix.seed), card, path in sources, path in targets)
        for name, path, card in zip(names, paths, cards, strict=True)
    ]
    _require_held_out(matrix, entries)
    return entries


def _require_held_out(matrix: Matrix, entries: Sequence[Entry]) -> None:
    """Refuse targets on which the weights of a source were selected: its numbers there would be the best of several.

    Raises:
        RecipeError: naming both.
    """
    for target in entries:
        bases = {target.card.hash, *(base.get("sha256") for base in target.card.bases.values())}
        for source in entries:
            held_out = source.card.origins.get("held_out", {}).get("sha256")
            if target.is_target and source.is_source and held_out in bases:
                raise RecipeError(
                    f"{matrix.name}: targets: {target.name}: expected networks on which no source was selected; the "
                    f"weights of {source.name} were chosen by their transfer to it"
                )


def require_same_images(entry: Entry, splits: Splits) -> None:
    """Refuse a network of other images: numbers of one matrix are about the same test images, or about nothing.

    Raises:
        RecipeError: naming the network.
    """
    try:
        fits(entry.card, splits)
    except CheckpointError as error:
        raise RecipeError(f"{entry.name}: {error}") from error
    fingerprint = read_metadata(entry.card.file).get("data")
    if fingerprint != splits.fingerprint:
        raise RecipeError(
            f"{entry.name}: expected a network of the data set {splits.name} ({splits.fingerprint[:12]}), on which all "
            f"others are tested; got one of another ({str(fingerprint)[:12]})"
        )


def facts_of(entry: Entry, entries: Sequence[Entry]) -> dict[str, Any]:
    """What a report says of a network, with the networks of the matrix that it comes from."""
    names = {one.card.hash: one.name for one in entries}
    origins: Mapping[str, Any] = entry.card.origins
    before = origins.get("init_from", {}).get("sha256")
    return {
        "name": entry.name,
        "path": str(entry.path),
        "sha256": entry.card.hash,
        "epoch": entry.card.epoch,
        "source": entry.is_source,
        "target": entry.is_target,
        "before": names.get(before),
        "witnesses": [names.get(one["sha256"]) or one["name"] for one in origins.get("witnesses", [])],
        "witness_hashes": [one["sha256"] for one in origins.get("witnesses", [])],
        "control": control_of(entry.card.recipe, origins),
        **_defence_of(entry.card, names),
    }


def _defence_of(card: Card, names: Mapping[str, str]) -> dict[str, str | None]:
    """The defence that a network is behind, and the name of the network without it; None for other networks."""
    model: object = card.recipe.model
    if not isinstance(model, DefendedRun):
        return {"defence": None, "defends": None}
    base = card.bases["network"]
    return {"defence": describe(model.defence, InputDefence)[1], "defends": names.get(base["sha256"]) or base["name"]}


def control_of(recipe: Recipe, origins: Mapping[str, Any]) -> str:
    """What a network that comes from another one controls for; empty for an alignment, and for other networks."""
    if "init_from" not in origins:
        return ""
    objective, start = recipe.train.objective, origins["init_from"].get("sha256")
    if not isinstance(objective, Align):
        smoothing = getattr(objective, "label_smoothing", 0.0)
        return f"trained on with label smoothing {smoothing:g}" if smoothing else "trained on"
    if recipe.train.optimizer.lr == 0:
        return "aligned at rate 0"
    itself = all(one.get("sha256") == start for one in origins.get("witnesses", []))
    return "aligned with itself" if itself else ""
