"""Small models whose right answers are known, and small networks trained on the digits."""

import functools
import itertools

import torch
import torch.nn.functional as F
from torch import nn

from holdfast.attacks import PGD
from holdfast.data.digits import Digits
from holdfast.models.lipschitz import LipschitzCNN, LipschitzMLP
from holdfast.objectives import MSCR
from holdfast.rng import Streams, permutation
from holdfast.testing.networks import (  # noqa: F401
    THREAT_KINDS,
    Affine,
    HalfSpace,
    Linear,
    Normed,
    frozen_norm,
    half_space,
    half_space_distance,
    half_space_points,
    images,
    labels,
    linear,
    normed,
    seeded,
    smooth,
)  # fmt: skip
from holdfast.threat import Linf


def generator(seed=0):
    """A generator of torch, for draws that need no stream per example."""
    return torch.Generator().manual_seed(seed)


def half_space_points_at(model, distance, kind, count=8, *, seed=0):
    """Points near the middle of the box, all at this distance from the boundary, on either side, with their labels."""
    x, y = half_space_points(model, count, seed=seed)
    with torch.no_grad():
        dual = torch.linalg.vector_norm(model.weight, {"linf": 1, "l2": 2, "l1": torch.inf}[kind])
        wanted = distance * dual * (2 * y - 1)
        return x + ((wanted - model.signed(x)) / model.weight.square().sum())[:, None] * model.weight, y


class Masked(nn.Module):
    """A classifier with a masked gradient: its input is rounded to a grid, so the gradient is zero everywhere."""

    def __init__(self, model, levels=4):
        super().__init__()
        self.model, self.levels = model, levels

    def forward(self, x):
        return self.model((x * self.levels).round() / self.levels)


class Saturated(nn.Module):
    """A classifier with a masked gradient: logits so large that the cross entropy is exactly zero and flat."""

    def __init__(self, model, scale=1e3):
        super().__init__()
        self.model, self.scale = model, scale

    def forward(self, x):
        return self.scale * self.model(x)


class Confident(nn.Module):
    """A classifier that returns probabilities."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).softmax(1)


class Jittery(nn.Module):
    """A stochastic classifier: noise on its input, from the global generator, in every mode."""

    def __init__(self, model, noise=0.1):
        super().__init__()
        self.model, self.noise = model, noise

    def forward(self, x):
        return self.model(x + self.noise * torch.randn_like(x))


class Forgetful(nn.Module):
    """A classifier whose author forgot the flag of dropout, so that eval mode does not switch it off."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(F.dropout(x, 0.2))


class Social(nn.Module):
    """A classifier whose forward pass puts its BatchNorm in train mode, so that answers depend on the whole batch."""

    def __init__(self, model, channels=1):
        super().__init__()
        self.model, self.norm = model, nn.BatchNorm2d(channels, track_running_stats=False)

    def forward(self, x):
        self.norm.train()
        return self.model((0.3 + 0.4 * self.norm(x)).clamp(0, 1))


def with_dropout():
    """A network with dropout in train mode; its BatchNorm is frozen."""
    model = normed(dropout=0.5).train()
    model.norm.eval()
    return model


@functools.cache
def digits():
    """Test images and labels of the digits: 500, (1, 8, 8), float32."""
    return Digits()().test.batch(slice(None))


@functools.cache
def _train_digits():
    return Digits()().train.batch(slice(None))


@torch.enable_grad()
def _fit(model, *, epochs, noise=0.0, attack=None, objective=None, lr=3e-3, batch=64):
    x, y = _train_digits()
    optimizer = torch.optim.Adam(model.parameters(), lr)
    model.train()
    for epoch in range(epochs):
        for rows in permutation(len(x), epoch, "zoo order").split(batch):
            rng = Streams(epoch, "zoo noise", rows)
            z = (x[rows] + noise * rng.normal(x[rows])).clamp(0, 1)
            if attack is not None:
                z = attack(model, z, y[rows], rng=rng)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(z), y[rows]) if objective is None else objective(model, z, y[rows]).total
            loss.backward()
            optimizer.step()
    return model.eval()


@functools.cache
def digits_mlp():
    """A perceptron trained on the digits: about 97 % right."""
    make = functools.partial(nn.Sequential, nn.Flatten())
    return _fit(seeded(lambda: make(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))), epochs=12)


def _layers():
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(24 * 16, 10),
    )


@functools.cache
def digits_cnn():
    """A small convolutional network trained on noisy digits: about 97 % right, half of it under small attacks."""
    return _fit(seeded(_layers), epochs=10, noise=0.1)


@functools.cache
def digits_robust():
    """The same network trained against PGD at linf 0.15: about 97 % right, and two thirds under that attack."""
    attack = PGD(threat=Linf(0.15), steps=3, until_lost=False)
    return _fit(seeded(_layers), epochs=8, attack=attack)


@functools.cache
def digits_lipschitz(activation="relu", convolutions=False):
    """A 1-Lipschitz network trained for a margin on the digits: about 95 % right, radii around 0.5."""
    kind = LipschitzCNN if convolutions else LipschitzMLP
    made = seeded(lambda: kind(hidden=(64,), activation=activation)((1, 8, 8), 10))
    return _fit(made, epochs=8, objective=MSCR(d=0.5, sigma=0.1), lr=1e-2)


class Piecewise(nn.Module):
    """A ReLU network of the unit square whose regions can be listed, so that exact distances are known."""

    def __init__(self, weight, bias, head, offset):
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)
        self.head, self.offset = nn.Parameter(head), nn.Parameter(offset)

    def forward(self, x):
        return F.linear(F.relu(F.linear(x, self.weight, self.bias)), self.head, self.offset)


def piecewise(hidden=7, classes=3, *, seed=0):
    """Random kinks through the unit square; logits have mean 0 over it, so that all classes occur."""
    random = Streams(seed, "zoo piecewise", 1)
    weight = 2 * random.normal(torch.empty(1, hidden, 2, dtype=torch.float64))[0]
    bias = -(weight * random.uniform(torch.empty(1, hidden, 2, dtype=torch.float64))[0]).sum(1)
    head = random.normal(torch.empty(1, classes, hidden, dtype=torch.float64))[0]
    model = Piecewise(weight, bias, head, torch.zeros(classes, dtype=torch.float64))
    with torch.no_grad():
        model.offset.sub_(model(images(500, (2,))).mean(0))
    return model


def piecewise_distance(model, x, y, kind):
    """Exact distance of each x, (N, 2), to the nearest point of the square that is not of class y, by enumeration.

    In the region of an activation pattern f_y = f_k is a line; what the region and the square leave of it is a segment,
    and the distance to a segment is least at an end or where the norm has a kink or (Euclidean) a right angle.
    """
    best = x.new_full((len(x),), torch.inf)
    for label in range(len(model.offset)):
        mine = y == label
        for start, direction, low, high in _segments(model, label):
            best[mine] = torch.minimum(best[mine], _to_segment(x[mine], start, direction, low, high, kind))
    return best


@torch.no_grad()
def _segments(model, label):
    square = torch.cat((torch.eye(2), -torch.eye(2))).to(model.weight), model.bias.new_tensor([0.0, 0.0, 1.0, 1.0])
    for pattern in itertools.product((0.0, 1.0), repeat=len(model.bias)):
        on = model.bias.new_tensor(pattern)
        sign = 2 * on - 1
        sides = torch.cat((sign[:, None] * model.weight, square[0]))
        offsets = torch.cat((sign * model.bias, square[1]))  # the region: sides @ z + offsets >= 0
        slope, level = (model.head * on) @ model.weight, (model.head * on) @ model.bias + model.offset
        for other in set(range(len(model.offset))) - {label}:
            normal, value = slope[other] - slope[label], level[other] - level[label]
            if not normal.any():
                continue
            start, direction = -value * normal / normal.dot(normal), torch.stack((-normal[1], normal[0]))
            rate, room = sides @ direction, sides @ start + offsets
            low = (-room / rate)[rate > 0].amax()
            high = (-room / rate)[rate < 0].amin()
            if low <= high and bool((room[rate == 0] >= 0).all()):
                yield start, direction, low, high


def _to_segment(x, start, direction, low, high, kind):
    gap = start - x  # the point at t is gap + t * direction away
    corners = torch.cat((-gap / direction, _ratio(gap, direction, 1), _ratio(gap, direction, -1)), dim=1)
    foot = -(gap @ direction)[:, None] / direction.dot(direction)
    ends = torch.stack((low, high)).expand(len(x), 2)
    t = torch.cat((corners.nan_to_num(), foot, ends), dim=1).clamp(low, high)
    points = gap[:, None] + t[:, :, None] * direction
    return torch.linalg.vector_norm(points, {"linf": torch.inf, "l2": 2, "l1": 1}[kind], dim=2).amin(1)


def _ratio(gap, direction, sign):
    """Where the two coordinates are equal, or opposite."""
    return ((sign * gap[:, 1] - gap[:, 0]) / (direction[0] - sign * direction[1]))[:, None]
