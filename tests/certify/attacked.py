"""What attacks on certificates share."""

import torch

from holdfast.types import ABSTAIN


def inside(certificate, groups=10):
    """Rows in groups of like radius, each with a radius that all its rows are certified for."""
    rows = (certificate.prediction != ABSTAIN).nonzero()[:, 0]
    order = rows[certificate.radius[rows].argsort()]
    for part in order.chunk(groups):
        yield part, 0.9999 * float(certificate.radius[part].min())


class Averaged(torch.nn.Module):
    """The network averaged over fixed noise, so that gradient attacks see what is certified.

    `of` is taken of the logits before the mean: nothing, or the softmax where votes are counted.
    """

    def __init__(self, model, noise, of=lambda logits: logits):
        super().__init__()
        self.model, self.noise, self.of = model, noise, of

    def forward(self, x):
        copies = (x[:, None] + self.noise).flatten(0, 1)
        return self.of(self.model(copies)).view(len(x), len(self.noise), -1).mean(1)
