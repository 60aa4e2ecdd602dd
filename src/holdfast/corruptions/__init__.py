"""Changes of images that do not look at the model."""

from holdfast.corruptions.linear import Linear
from holdfast.corruptions.noise import Clean, GaussianNoise, UniformNoise
from holdfast.types import Corruption

CORRUPTIONS: dict[str, type[Corruption]] = {
    "clean": Clean,
    "gaussian_noise": GaussianNoise,
    "uniform_noise": UniformNoise,
    "linear": Linear,
}

__all__ = ["CORRUPTIONS", "Clean", "GaussianNoise", "Linear", "UniformNoise"]
