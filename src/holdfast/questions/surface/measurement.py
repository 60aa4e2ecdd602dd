r"""The loss on a plane through an image, with the class predicted at each point.

.. math:: L(a, b) = \ell(f(x + a\,u + b\,v), y), \qquad \|u\| = \|v\| = 1,\ \langle u, v\rangle = 0

:math:`u` is the gradient of the loss and :math:`v` a random direction orthogonal to it, or :math:`u` leads to a point
that an attack found and :math:`v` to another one, made orthogonal to :math:`u`, or is random. Distances are Euclidean,
in [0, 1] pixel units.

Reference:
    Nguyen et al., Training More Robust Classification Model via Discriminative Loss and Gaussian Noise Injection,
    figure 11: gradient and random direction (drawn there is the negative loss).
    Ma, Understanding Adversarial Robustness in Deep Learning, thesis, Toronto 2025, figure 6.3: the perturbation that
    an attack found and a random direction orthogonal to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.gradients import input_gradient
from holdfast.losses import cross_entropy
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.types import Classifier, Loss

PARALLEL = 1e-6
"""Directions whose sine is smaller span no plane."""


@dataclass(frozen=True)
class Plane:
    """A plane through each image.

    Args:
        first: :math:`u`, like the images, of length 1.
        second: :math:`v`, like the images, of length 1 and orthogonal to `first`.
        marks: where the points lie that the plane was made through, (N, M, 2).
        replaced: whether a direction was zero, or the second parallel to the first, and a random one stands for it,
            (N, 2).
    """

    first: Tensor
    second: Tensor
    marks: Tensor
    replaced: Tensor


@dataclass(frozen=True)
class Surface:
    """Loss and prediction on a grid.

    Args:
        positions: of the grid along both directions, (G,); the one in the middle is 0.
        loss: (N, G, G), float64; rows go along the second direction, columns along the first.
        prediction: predicted classes, (N, G, G).
    """

    positions: Tensor
    loss: Tensor
    prediction: Tensor


@in_evaluation_mode
def gradient_plane(
    model: Classifier, x: Tensor, y: Tensor, *, loss: Loss = cross_entropy, rng: Streams | None = None
) -> Plane:
    """The plane of the loss's gradient and a random direction orthogonal to it."""
    return _plane(input_gradient(loss, model, x, y)[1], None, streams(rng, x), [])


def plane_through(x: Tensor, ends: Sequence[Tensor], *, rng: Streams | None = None) -> Plane:
    """The plane through each image and one or two other points, such as those that attacks found.

    Args:
        x: images, (N, ...).
        ends: one or two points for each; with one, the second direction is random.
        rng: random streams of the images.
    """
    if len(ends) not in (1, 2):
        raise ValueError(f"plane_through: expected one or two points for each image, got {len(ends)}")
    moves = [end - x for end in ends]
    return _plane(moves[0], moves[1] if len(moves) > 1 else None, streams(rng, x), moves)


@in_evaluation_mode
def loss_surface(
    model: Classifier, x: Tensor, y: Tensor, plane: Plane, *, radius: float = 1.0, steps: int = 20,
    clip: bool = False, loss: Loss = cross_entropy, batch: int = 1024,
) -> Surface:  # fmt: skip
    """Loss and prediction on a square grid around each image, which is the point in the middle.

    Args:
        model: the classifier, used in evaluation mode.
        x: images, (N, ...).
        y: labels, (N,).
        plane: through each image.
        radius: how far the grid goes from the image along each direction.
        steps: grid points from the image to the edge; the grid has `2 * steps + 1` on each side.
        clip: whether points are cut to [0, 1]. Cut points no longer lie in the plane; others may be no valid images.
        loss: per-example loss.
        batch: rows of a forward pass.
    """
    if not (radius > 0 and radius < torch.inf) or steps < 1:
        raise ValueError(f"loss_surface: expected a positive radius and one or more steps, got {radius} and {steps}")
    positions = radius * torch.arange(-steps, steps + 1, dtype=torch.float64) / steps
    along, across = (each.flatten() for each in torch.meshgrid(positions, positions, indexing="xy"))
    values, classes = [], []
    together = max(1, batch // max(1, len(x)))
    with torch.no_grad():
        for a, b in zip(torch.split(along, together), torch.split(across, together), strict=True):
            z = _points(x, plane, a.to(x), b.to(x))
            logits = model(z.clamp(0, 1) if clip else z)
            values.append(loss(logits, y.repeat_interleave(len(a))).double().view(len(x), -1))
            classes.append(logits.argmax(1).view(len(x), -1))
    side = (len(x), len(positions), len(positions))
    return Surface(positions, torch.cat(values, 1).view(side), torch.cat(classes, 1).view(side))


def nearest_change(surface: Surface) -> Tensor:
    """Distance of each image to the nearest point of its grid with another prediction, (N,); infinite without one."""
    middle = len(surface.positions) // 2
    here = surface.prediction[:, middle : middle + 1, middle : middle + 1]
    far = torch.hypot(surface.positions[:, None], surface.positions[None]).to(surface.loss)
    return torch.where(surface.prediction != here, far, torch.inf).flatten(1).amin(1)


def _points(x: Tensor, plane: Plane, a: Tensor, b: Tensor) -> Tensor:
    """Some points of the plane of every image: those of the first image, then of the second, ..."""
    shape = (1, -1, *[1] * (x.dim() - 1))
    moved = x[:, None] + a.view(shape) * plane.first[:, None] + b.view(shape) * plane.second[:, None]
    return moved.flatten(0, 1)


def _plane(first: Tensor, second: Tensor | None, rng: Streams, moves: Sequence[Tensor]) -> Plane:
    if first[0].numel() < 2:
        raise ValueError("a plane needs images of two or more values")
    flat = first.flatten(1).double()
    u, zero = _unit(flat, rng.split("first").normal(flat))
    random = _orthogonal(rng.split("second").normal(flat), u)
    stated = random if second is None else second.flatten(1).double()
    rest = _orthogonal(stated, u)
    parallel = rest.norm(dim=1) <= PARALLEL * stated.norm(dim=1)
    v, _ = _unit(torch.where(parallel[:, None], 0.0, rest), random)
    v = _unit(_orthogonal(v, u), random)[0]  # once more: rounding of nearly parallel directions
    marks = [torch.stack([(move.flatten(1).double() * axis).sum(1) for axis in (u, v)], dim=1) for move in moves]
    where = torch.stack(marks, dim=1) if marks else flat.new_zeros(len(flat), 0, 2)
    shaped = [axis.to(first).view_as(first) for axis in (u, v)]
    return Plane(shaped[0], shaped[1], where, torch.stack((zero, parallel), dim=1))


def _unit(flat: Tensor, otherwise: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors of length 1, (N, D), and where there was none and another stands for it."""
    zero = flat.norm(dim=1) == 0
    chosen = torch.where(zero[:, None], otherwise, flat)
    return chosen / chosen.norm(dim=1, keepdim=True), zero


def _orthogonal(flat: Tensor, unit: Tensor) -> Tensor:
    """What is left of vectors without their part along others of length 1."""
    return flat - (flat * unit).sum(1, keepdim=True) * unit
