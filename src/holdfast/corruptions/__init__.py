"""Changes of images that do not look at the model."""

from holdfast.corruptions.bar.corruption import Bar
from holdfast.corruptions.chain import Chain
from holdfast.corruptions.common.corruption import Common
from holdfast.corruptions.frequencies import BandNoise, EnergyFilter, LowPass
from holdfast.corruptions.linear import Linear
from holdfast.corruptions.masks import DownUp, Occlusion, Stripes
from holdfast.corruptions.noise import Clean, GaussianNoise, UniformNoise
from holdfast.families import CORRUPTIONS

__all__ = [
    "CORRUPTIONS",
    "BandNoise",
    "Bar",
    "Chain",
    "Clean",
    "Common",
    "DownUp",
    "EnergyFilter",
    "GaussianNoise",
    "Linear",
    "LowPass",
    "Occlusion",
    "Stripes",
    "UniformNoise",
]
