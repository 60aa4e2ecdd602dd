"""Gradients that prefer the shortcuts of residual networks."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.attacks.stages.stage import Climb, Slope
from holdfast.backward import with_damped_branches
from holdfast.rng import Streams
from holdfast.types import Classifier


@dataclass(frozen=True, kw_only=True)
class SkipGradient:
    r"""Gradients whose part through the branch of each residual block is made smaller.

    .. math:: z = x + f(x), \qquad \frac{\partial z}{\partial x} := 1 + \gamma\, f'(x)

    The answers of the network do not change. It stands anywhere among the stages.

    Args:
        factor: :math:`\gamma`.
        branches: names that branches have in their blocks; by default those of our networks (`Residual`,
            `PreActivation`, blocks of transformers). Nobody can tell a branch from a shortcut in foreign code, so that
            such networks need the name of the last module of their branches, such as `bn2` or `bn3` for those of
            torchvision; one that has none of the names is refused.

    Reference:
        Wu et al., Skip Connections Matter: On the Transferability of Adversarial Examples Generated with ResNets, ICLR
        2020, arXiv:2002.05990 (0.2 for ResNets under PGD, 0.5 for DenseNets). Differs: public code multiplies at ReLUs
        of two torchvision architectures.
    """

    factor: float = 0.5
    branches: tuple[str, ...] = ("branch", "attention", "perceptron")

    def __post_init__(self) -> None:
        if not 0 <= self.factor <= 1 or not self.branches:
            raise ValueError(f"expected a factor in [0, 1] and branches, got {self.factor} and {self.branches}")

    def on(self, model: Classifier) -> Classifier:
        """The network with this backward pass."""
        return with_damped_branches(model, self.factor, self.branches)

    def __call__(self, slope: Slope, climb: Climb, rng: Streams) -> Slope:
        """The slope with this backward pass."""
        climb.changes.append(self.on)
        return slope
