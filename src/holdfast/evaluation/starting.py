"""Images that decision-based attacks start from, taken from the examples under evaluation."""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor

from holdfast.attacks.starting import Pool, StartingFrom
from holdfast.data.dataset import Split
from holdfast.errors import RecipeError
from holdfast.evaluation.subject import place
from holdfast.types import Classifier
from holdfast.wrappers import network

IMAGES = 100
"""Of all classes together, about; each has at least one. Of several images of a class, one is near."""


def first_of_each_class(model: Classifier, split: Split, batch_size: int) -> Pool:
    """The first examples that the model sees as each class, in the order of the split.

    They depend on model and split alone, so that no result depends on blocks, batches or where a run was resumed. No
    example is its own start: an attack wants another class than the one it is seen as.

    Args:
        model: the classifier, in the mode it is judged in.
        split: the examples under evaluation, in order.
        batch_size: images per forward pass.
    """
    where, labels, counts = place(network(model)), set(split.y.tolist()), Counter[int]()
    kept: list[tuple[Tensor, int]] = []
    enough = max(1, IMAGES // len(labels))
    for start in range(0, len(split), batch_size):
        x = split.batch(slice(start, start + batch_size))[0].to(where)
        with torch.no_grad():
            predicted = model(x).argmax(1).tolist()
        for image, label in zip(x, predicted, strict=True):
            if counts[label] < enough:
                counts[label] += 1
                kept.append((image, label))
        if all(counts[label] == enough for label in labels):
            break
    images, classes = zip(*kept, strict=True)
    return Pool(torch.stack(images), torch.tensor(classes, device=where.device))


def refuse_starting_images(check: object) -> None:
    """Refuse a check that brings starting images of its own: the ledger could not name them."""
    while check is not None:
        if isinstance(check, StartingFrom):
            raise RecipeError("checks: expected an attack without StartingFrom: evaluation starts from its own images")
        check = getattr(check, "attack", None)
