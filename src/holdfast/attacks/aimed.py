"""Attacks on a mixture of classifiers by an adversary who aims at another mixture of the two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from holdfast.attacks.persistence import check_persistent, make_persistent
from holdfast.ensembles.composite import aimed
from holdfast.ensembles.mixing import check_strength
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams
from holdfast.types import Attack, Classifier, Threat
from holdfast.wrappers import behind, network


@dataclass(frozen=True, kw_only=True)
class Aimed:
    r"""Another attack, on the composite at a strength :math:`\alpha_t` of the adversary's choice.

    At 0 it attacks the accurate classifier alone and at infinity the robust one; between them it goes around a policy,
    which may mislead gradients. The point of highest loss there is then tried on the composite itself, so that no
    example leaves early. A classifier that mixes nothing is attacked as it is.

    Args:
        attack: the attack.
        strength: :math:`\alpha_t`. None takes the strengths that a policy chooses at each point, without their
            gradient; a composite without a policy is then attacked as it is.

    Reference:
        Bai, Anderson, Sojoudi, Avoiding the Accuracy-Robustness Trade-off of Classifiers via Local Adaptive Smoothing,
        sections 4.2 and 5.1.
    """

    wraps: ClassVar = "attack"

    attack: Attack
    strength: float | None

    def __post_init__(self) -> None:
        if self.strength is not None:
            check_strength(self.strength)
        if isinstance(self.attack, Aimed):
            raise ValueError("aimed: expected an attack that aims at nothing else, got another aimed")
        check_persistent("aimed", self.attack)

    @property
    def threat(self) -> Threat:
        """Where the attack may search."""
        return self.attack.threat

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """What the attack finds for each example."""
        inner = network(model)
        if aimed(inner, self.strength) is inner:  # what is climbed is what is judged
            return self.attack(model, x, y, target=target, rng=rng)
        stand_in = behind(model, lambda inner: aimed(inner, self.strength))
        return make_persistent(self.attack)(stand_in, x, y, target=target, rng=rng)
