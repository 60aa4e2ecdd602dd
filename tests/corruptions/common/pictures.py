"""Natural images that come with scikit-learn, at any size."""

from functools import lru_cache

import torch
import torch.nn.functional as F
from sklearn.datasets import load_sample_images


@lru_cache(maxsize=8)
def pictures(count, side):
    """Cuts of two photographs, shrunk so that a cut shows some content, on 8 bits; (count, 3, side, side) in [0, 1]."""
    cuts = []
    for number in range(count):
        photograph = torch.from_numpy(load_sample_images().images[number % 2].copy()).permute(2, 0, 1)[None] / 255
        if side < 224:
            photograph = F.interpolate(photograph, scale_factor=max(side, 56) / 224, mode="area")
        height, width = photograph.shape[-2:]
        row, column = int((height - side) * (0.37 * number % 1)), int((width - side) * number / count)
        cuts.append(photograph[0, :, row : row + side, column : column + side])
    return torch.stack(cuts).mul(255).round().div(255)
