"""Transfer: attacks made on another network, which no masked gradient of this one can stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.attacks.apgd import APGD
from holdfast.losses import margin
from holdfast.models import build
from holdfast.models.cnn import CNN
from holdfast.rng import Streams, permutation
from holdfast.trust.attacks import Case, beaten_by_any
from holdfast.trust.verdict import Verdict
from holdfast.types import Classifier

STUDENT = CNN(blocks=((16,), (32,)), kernel=3, pool=2, hidden=(64,), feature_dim=None)
"""A small network that any pair of classes can be told apart with."""

STEPS, BATCH, RATE = 400, 128, 2e-3
"""Of the student's training."""

NOISE = 0.3
"""Largest uniform noise on the images that the student learns from, so that it knows the model around them."""


Sources = Mapping[str, Classifier]
"""Networks to transfer attacks from, by name."""


def transfer(case: Case, surrogate: Classifier | Sources | None = None, images: Tensor | None = None) -> Verdict:
    """Do attacks on other networks break what attacks on this one do not?

    Args:
        case: the attack in question.
        surrogate: the other network, or several by name; None for a student of the model, see `distil`.
        images: what the student learns from; None for the images in question themselves.
    """
    if surrogate is None and case.x.dim() != 4:
        return Verdict(flag="transfer", level="not tested", finding="needs images, or a surrogate", evidence="attacks")
    standing = case.standing
    held = {name: transferred(case, source) for name, source in _sources(case, surrogate, images).items()}
    verdict = beaten_by_any("transfer", case, {f"an attack on {name}": standing & one for name, one in held.items()})
    clean = case.right(case.x, torch.ones_like(standing))
    correct = {"clean": clean, "white-box": standing} | {f"transferred from {name}": one for name, one in held.items()}
    accuracies = ", ".join(f"{name} {100 * float(one.double().mean()):.1f} %" for name, one in correct.items())
    return replace(verdict, finding=f"{verdict.finding} (accuracy: {accuracies})")


def transferred(case: Case, source: Classifier) -> Tensor:
    """Which examples the model still gets right where an attack on another network ends, (N,) bool."""
    attack = APGD(threat=case.attack.threat, loss=margin, until_lost=False)
    z = attack(source, case.x, case.y, rng=Streams(case.seed, "audit transfer", len(case.x)))
    return case.right(z, torch.ones_like(case.standing))


def _sources(case: Case, surrogate: Classifier | Sources | None, images: Tensor | None) -> Sources:
    if surrogate is None:
        student = distil(case.model, case.x if images is None else images, case.seed)
        return {"a student of the model": student}
    return surrogate if isinstance(surrogate, Mapping) else {"the surrogate": surrogate}


def distil(model: Classifier, images: Tensor, seed: int) -> nn.Module:
    r"""A small network that answers like the model on noisy images.

    .. math:: \min_g\ \mathbb{E}_{x, r, u}\; \mathrm{CE}\bigl(\mathrm{softmax} f(x'),\, g(x')\bigr), \qquad
        x' = \mathrm{clip}(x + r u),\ r \sim U[0, 0.3],\ u \sim U[-1, 1]^d

    It learns from answers alone, so that nothing of the model's gradient enters.

    Reference:
        Papernot et al., Practical Black-Box Attacks against Machine Learning, ASIA CCS 2017, arXiv:1602.02697. Differs:
        images around the data are random instead of chosen by the student's Jacobian.
    """
    with torch.no_grad():
        classes = model(images[:2]).shape[1]
    student = build(STUDENT, (images.shape[1], images.shape[2], images.shape[3]), classes, seed=seed).to(images)
    weights = list(student.parameters())
    optimizer = torch.optim.Adam(weights, RATE)
    student.train()
    for step in range(STEPS):
        rows = permutation(len(images), seed, f"audit order {step}")[:BATCH]
        x = around(images[rows.to(images.device)], Streams(seed, f"audit noise {step}", rows))
        with torch.no_grad():
            target = model(x).softmax(1)
        with torch.enable_grad():
            loss = F.cross_entropy(student(x), target)
            slopes = torch.autograd.grad(loss, weights)
        for weight, slope in zip(weights, slopes, strict=True):
            weight.grad = slope
        optimizer.step()
    return student.eval().requires_grad_(False)


def around(x: Tensor, rng: Streams) -> Tensor:
    """Images with uniform noise, of another size for each."""
    size = NOISE * rng.uniform(x.new_empty(len(x), 1, 1, 1))
    return (x + size * (2 * rng.uniform(x) - 1)).clamp(0, 1)
