"""Images that look like photographs to a corruption, and ramps that show where a pixel's value came from."""

import torch

from holdfast.rng import Streams


def natural(count, shape=(3, 32, 32), *, dtype=torch.float64):
    """Random clouds with the spectrum of photographs (amplitude 1/k), cut off in [0, 1], another for each example."""
    like = torch.empty(count, *shape, dtype=torch.float64)
    rows, columns = (torch.fft.fftfreq(size, d=1 / size, dtype=torch.float64) for size in shape[1:])
    amplitude = 1 / torch.hypot(rows[:, None], columns).clamp(min=1)
    clouds = torch.fft.ifft2(torch.fft.fft2(Streams(0, "natural", count).normal(like)) * amplitude).real
    clouds = clouds / clouds.std(dim=(-2, -1), keepdim=True)
    return (0.5 + 0.25 * clouds).clamp(0, 1).to(dtype)


def ramps(count, height, width):
    """Three channels: the row and the column of each pixel, in [0, 1], and white."""
    rows = torch.linspace(0, 1, height, dtype=torch.float64)[:, None].expand(height, width)
    columns = torch.linspace(0, 1, width, dtype=torch.float64).expand(height, width)
    return torch.stack((rows, columns, torch.ones_like(rows))).expand(count, 3, height, width).clone()


def numbers(rng, *shape):
    """The next uniform numbers of the streams, as the corruptions draw them."""
    return rng.uniform(torch.empty(len(rng), *shape, dtype=torch.float64))
