"""Linear classifiers on which it is known whether a border can be crossed: by linear programs."""

import functools

import numpy as np
import torch
from scipy.optimize import linprog

from holdfast.hierarchy import hierarchy_of
from tests.zoo import images, linear

CLASSES, SHAPE = 6, (1, 2, 2)
HIERARCHY = hierarchy_of(tuple("abcdef"), {"group": {"x": ["a", "d"], "y": ["b", "e", "f"], "z": ["c"]}})


@functools.cache
def subject(count=40):
    """A linear classifier of six classes in three groups, and images with the labels that it gives them."""
    model, x = linear(CLASSES, SHAPE, seed=5), images(count, SHAPE, seed=2)
    with torch.no_grad():
        return model, x, model(x).argmax(1)


def can_cross(eps, slack=0.0, crossing=None):
    """Whether some point within eps in linf has a class beyond the border above all others by a slack, (N,)."""
    model, x, y = subject()
    weight, bias = (part.detach().numpy() for part in (model.weight, model.bias))
    crossing = HIERARCHY.border().crossing if crossing is None else crossing
    return torch.tensor(
        [_reachable(weight, bias, one, eps, slack, crossing[label]) for one, label in zip(x, y, strict=True)]
    )


def _reachable(weight, bias, image, eps, slack, beyond):
    flat = image.flatten().numpy()
    bounds = list(zip(np.maximum(flat - eps, 0), np.minimum(flat + eps, 1), strict=True))
    for target in np.flatnonzero(beyond):
        others = np.flatnonzero(~beyond)  # among classes beyond the border any will do
        rows, limits = weight[others] - weight[target], bias[target] - bias[others] - slack
        if linprog(np.zeros(len(flat)), A_ub=rows, b_ub=limits, bounds=bounds).status == 0:
            return True
    return False


def crossed(model, z, y, border=None):
    """Which points are beyond the border."""
    flags = torch.from_numpy((border or HIERARCHY.border()).crossing)
    with torch.no_grad():
        return flags[y, model(z).argmax(1)]
