"""The question of how alike networks are, for attacks that transfer from one to others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from holdfast.questions.answers import Answers
from holdfast.questions.attack import attack_settings, check_budget, chosen_attack
from holdfast.questions.question import Companion, Context, Needs, Prepared
from holdfast.results.matrices import MatrixData, read_matrix
from holdfast.show.items import Item

if TYPE_CHECKING:
    from holdfast.questions.similarity.measurement import Measurement

BLOCK = 64
"""Images of a block, at most: attacks on several networks are what an interruption loses."""


@dataclass(frozen=True, kw_only=True)
class Similarity:
    r"""Similarity of networks: answers, input gradients and perturbations of a source and of others.

    .. math:: \mathrm{KL}(g \,\|\, f) = \sum_k g_k \log \frac{g_k}{f_k}, \qquad
        \cos\bigl(\nabla_x \ell(f(x), y),\, \nabla_x \ell(g(x), y)\bigr)

    for the source :math:`f` and each other network :math:`g`, such as candidate witnesses of an alignment, which are
    ranked without a query to any target.

    Args:
        others: other runs or weights files, such as runs/a,runs/b; `{seed}` in them stands for the seed of the run.
        norm: norm of the budget of perturbations: linf, l2 or l1; goes with eps (default: linf).
        eps: budget of the attack that makes perturbations, such as 8/255 (default: that of the run's attack).
        bands: bands of frequencies in which the perturbations are compared.
        examples: number of test images at most, balanced over the classes.
        matrix: directory of a finished matrix of transfer whose sources were aligned with the others, to compare the
            ranks with what each witness gained.

    Reference:
        Ma et al., Improving Adversarial Transferability via Model Alignment, ECCV 2024, arXiv:2311.18495, table 6.1
        and figure 6.2 of Ma's thesis.
    """

    title: ClassVar = "Similarity of networks"
    needs: ClassVar = Needs.NETWORKS

    others: tuple[str, ...] = ()
    norm: Literal["linf", "l2", "l1"] | None = None
    eps: float | None = None
    bands: int = 10
    examples: int = 500
    matrix: str | None = None

    def __post_init__(self) -> None:
        check_budget(self.norm, self.eps)
        if len(set(self.others)) < len(self.others):
            raise ValueError("others: expected each network once")
        if min(self.bands, self.examples) < 1:
            raise ValueError(f"bands and examples must be at least 1, got {self.bands} and {self.examples}")

    @property
    def sources(self) -> tuple[str, ...]:
        """The other networks."""
        return self.others

    def prepared(self, context: Context) -> Prepared:
        """The measurement with the others loaded, and what each gained as a witness."""
        if not self.others:
            raise ValueError("others: expected at least one run or weights file, such as runs/zoo/cnn/seed-0")
        attack = chosen_attack(context, self.norm, self.eps)
        others = [context.load(Path(path.replace("{seed}", str(context.seed)))) for path in self.others]
        settings: dict[str, Any] = {
            **attack_settings(context, attack), "examples": min(self.examples, len(context.test)),
            "networks": [_facts(one) for one in others],
        }  # fmt: skip
        if self.matrix is not None:
            matrix = read_matrix(Path(self.matrix))
            settings["gains"] = gains(matrix, context.weights_hash, others)
            settings["missing_controls"] = sorted(
                {name for one in matrix.descendants for name in matrix.missing_controls(one)}
            )
        return Prepared(self._measurement(others, attack), settings, BLOCK, settings["examples"])

    def _measurement(self, others: list[Companion], attack: Any) -> Measurement:
        from holdfast.questions.similarity.measurement import Measurement

        return Measurement([one.model for one in others], attack, self.bands)

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """A row for each other network, ranks as witnesses, and where the perturbations differ."""
        from holdfast.questions.similarity.presentation import presentation

        return presentation(answers)


def _facts(other: Companion) -> dict[str, Any]:
    """What an answer keeps of another network."""
    weights = sum(weight.numel() for weight in other.model.parameters())
    return {"name": other.name, "hash": other.weights_hash, "weights": weights}


def gains(matrix: MatrixData, source: str, others: list[Companion]) -> list[float | None]:
    """What each network gained as the only witness of a source: the mean change of error rates in a matrix.

    Args:
        matrix: rows of the source and of what was aligned from it.
        source: first digits of the hash of its weights.
        others: the witnesses.

    Returns:
        For each the mean over the networks that were aligned with it; None where there are none.
    """
    by_hash: dict[str, list[float]] = {}
    for one in matrix.descendants:
        witnesses, before = one.get("witness_hashes", []), matrix.network(one["before"])
        gain = matrix.gain(one) if before["sha256"].startswith(source) else None
        if gain is not None and len(witnesses) == 1 and not one["control"]:
            by_hash.setdefault(witnesses[0][: len(source)], []).append(gain)
    gains: Mapping[str, list[float]] = by_hash
    return [sum(some) / len(some) if (some := gains.get(one.weights_hash)) else None for one in others]
