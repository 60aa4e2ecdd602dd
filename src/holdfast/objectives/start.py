r"""Where a Taylor expansion of the loss starts: at the image, at a random point, or after one step of PGD.

A network that is sure of an image has a loss that is flat there, with derivatives that predict nothing about the loss
farther away. Half of the budget is spent on a step to a less certain point, the other half is left for the expansion,
so that both together stay within the threat.

Reference:
    Ma, Understanding Adversarial Robustness in Deep Learning, thesis, Toronto 2025, section 3.3.4 and algorithm 3.1.
    Differs: points are clipped to [0, 1]; the random start uses half of the budget, like the other start, where the
        thesis uses all of it.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from holdfast.errors import unknown
from holdfast.gradients import input_gradient
from holdfast.modes import evaluating
from holdfast.objectives.passes import Passes
from holdfast.rng import Streams
from holdfast.threat.l0 import L0
from holdfast.threat.radius import with_radius
from holdfast.types import Classifier, Loss, Threat

Start = Literal["pgd1", "random", "zero"]

COSTS: dict[Start, Passes] = {"pgd1": Passes(1, 1), "random": Passes(0, 0), "zero": Passes(0, 0)}
"""Cost of finding the point."""


def check_start(method: str, start: str, threat: Threat) -> None:
    """Refuse unknown starts, and a threat that only counts values: half of it is not half as far."""
    if start not in COSTS:
        raise ValueError(f"start: {unknown(start, COSTS)}")
    if isinstance(threat, L0):
        raise ValueError(f"{method} has no l0 form, since a count has no dual norm; known: l1, l2, linf")


def starting_point(
    start: Start, threat: Threat, loss: Loss, model: Classifier, x: Tensor, y: Tensor, rng: Streams
) -> tuple[Tensor, float]:
    """The point of each example, detached, and the radius that is left for the expansion around it.

    Args:
        start: `zero` for the image itself, with all of the radius left; the others spend half of it.
        threat: the whole budget.
        loss: the loss that one step of PGD raises.
        model: the classifier, used in eval mode.
        x: images, (N, ...).
        y: labels.
        rng: random streams of the images.
    """
    if start == "zero":
        return x.detach(), threat.eps
    half = with_radius(threat, threat.eps / 2)
    if start == "random":
        return half.sample(x.detach(), rng), half.eps
    with evaluating(model):
        return pgd1(half, loss, model, x, y, rng), half.eps


def pgd1(threat: Threat, loss: Loss, model: Classifier, x: Tensor, y: Tensor, rng: Streams) -> Tensor:
    r"""One step of PGD, as long as the radius, from a random point: one forward and one backward pass.

    .. math:: z = \Pi_{S(x)}\bigl(u + \epsilon\, s(\nabla \ell(f(u), y))\bigr), \qquad u \sim S(x)

    The attack `pgd` with one step costs another forward pass, since it returns the better of its two points.
    """
    x = x.detach()
    u = threat.sample(x, rng)
    _, grad, _ = input_gradient(loss, model, u, y)
    return threat.project(u + threat.eps * threat.ascent(grad, u), x)
