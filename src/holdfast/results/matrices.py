"""What a matrix of transfer left: its facts and its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from holdfast import files
from holdfast.errors import LedgerError
from holdfast.json_text import parse_json_object
from holdfast.results.ledger import Ledger
from holdfast.results.transfers import Change, Transfers

FACTS = "matrix.json"

CONTROLS = ("aligned at rate 0", "trained on", "trained on with label smoothing", "aligned with itself")
"""What an alignment is compared with, by the beginning of the `control` of a network in the facts."""


@dataclass(frozen=True)
class MatrixData:
    """Everything that a page says of a matrix.

    Args:
        facts: `matrix.json`.
        transfers: its rows.
    """

    facts: Mapping[str, Any]
    transfers: Transfers

    def network(self, name: str) -> Mapping[str, Any]:
        """The facts of a network."""
        return next(one for one in self.facts["networks"] if one["name"] == name)

    @property
    def descendants(self) -> list[Mapping[str, Any]]:
        """Sources that were trained on from another source of the matrix."""
        sources = set(self.transfers.sources)
        return [one for one in self.facts["networks"] if one["name"] in sources and one.get("before") in sources]

    def counted_targets(self, descendant: Mapping[str, Any]) -> list[str]:
        """Targets of a mean: neither the network nor its origin nor a witness, with or without a defence."""
        excluded = {descendant["name"], descendant["before"], *descendant["witnesses"]}
        return [
            target for target in self.transfers.targets if not excluded & {target, self.network(target).get("defends")}
        ]

    def missing_controls(self, descendant: Mapping[str, Any]) -> list[str]:
        """The controls that an aligned network lacks among the sources from the same network; none for a control."""
        if descendant["control"] or not descendant["witnesses"]:
            return []
        controls = [one["control"] for one in self.descendants if one["before"] == descendant["before"]]
        return [name for name in CONTROLS if not any(_is_control(name, control) for control in controls)]

    def changes(self, descendant: Mapping[str, Any], attack: str) -> dict[str, Change]:
        """By target: points of a network against those of the one that it comes from."""
        before, after = str(descendant["before"]), str(descendant["name"])
        return {target: self.transfers.change(before, after, attack, target) for target in self.transfers.targets}

    def gain(self, descendant: Mapping[str, Any]) -> float | None:
        """Mean change of the error rate over attacks and counted targets; None where there are none."""
        counted = self.counted_targets(descendant)
        paired = [
            self.changes(descendant, attack)[target].paired for attack in self.transfers.attacks for target in counted
        ]
        differences = [one.difference for one in paired if one is not None]
        return fmean(differences) if differences else None


def _is_control(name: str, control: str) -> bool:
    """Whether the words for a control, which may end with a number, are of this name."""
    return control == name or control.rpartition(" ")[0] == name != "trained on"


def read_matrix(path: Path) -> MatrixData:
    """What a matrix left in its directory.

    Raises:
        LedgerError: if it is not there, unfinished or damaged.
    """
    file = path / FACTS
    if not file.exists():
        raise LedgerError(f"{path}: expected a finished matrix with {FACTS}, got none; run `holdfast transfer` first")
    try:
        facts = parse_json_object(files.read_checked(file, remedy="; run `holdfast transfer` again").decode())
        sources, targets = ([one["name"] for one in facts["networks"] if one[role]] for role in ("source", "target"))
        transfers = Transfers(Ledger(path / "rows").read(), sources, facts["attacks"], targets)
    except (KeyError, TypeError, ValueError) as error:
        raise LedgerError(f"{file}: expected facts written by holdfast; got {error}; run it again") from None
    return MatrixData(facts, transfers)
