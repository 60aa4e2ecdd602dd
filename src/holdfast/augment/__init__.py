"""Random changes of training images, whole batches at a time."""

from __future__ import annotations

from holdfast.augment.augmix import AugMix
from holdfast.augment.crop import RandomCrop
from holdfast.augment.deepaugment import DeepAugment
from holdfast.augment.flip import HorizontalFlip
from holdfast.augment.pixmix import PixMix
from holdfast.augment.randaugment import RandAugment, TrivialAugment
from holdfast.augment.soft import augmented, soften, softens
from holdfast.augment.spider import Spider
from holdfast.corruptions.frequencies import EnergyFilter, LowPass
from holdfast.families import AUGMENTATIONS

__all__ = [
    "AUGMENTATIONS",
    "AugMix",
    "DeepAugment",
    "EnergyFilter",
    "HorizontalFlip",
    "LowPass",
    "PixMix",
    "RandAugment",
    "RandomCrop",
    "Spider",
    "TrivialAugment",
    "augmented",
    "soften",
    "softens",
]
