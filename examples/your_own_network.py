"""Measure the robustness of a plain PyTorch network that was trained without holdfast.

Run it with `python examples/your_own_network.py`; it needs a few seconds and no download.
"""

import polars as pl
import torch
from torch import nn

import holdfast
from holdfast import L2, PGD, Clean, GaussianNoise, Linf
from holdfast.data import Digits

data = Digits()()
assert data.train is not None
x, y = data.train.batch(slice(None))  # images in [0, 1], labels

torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for _ in range(100):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()

x_test, y_test = data.test.batch(slice(None))
checks = [Clean(), GaussianNoise(0.2), PGD(threat=Linf(0.1), steps=20), PGD(threat=L2(0.5), steps=20)]
results = holdfast.evaluate(model, x_test, y_test, checks)
print(results)

print("median distance of the examples that broke:")
print(results.rows.filter(~pl.col("correct")).group_by("check").agg(pl.col("distance").median()))
