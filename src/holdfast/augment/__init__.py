"""Random changes of training images, whole batches at a time."""

from __future__ import annotations

from holdfast.augment.crop import RandomCrop
from holdfast.augment.flip import HorizontalFlip
from holdfast.types import Augmentation

AUGMENTATIONS: dict[str, Augmentation] = {"random_crop": RandomCrop(), "horizontal_flip": HorizontalFlip()}
"""Augmentations by name."""

__all__ = ["AUGMENTATIONS", "HorizontalFlip", "RandomCrop"]
