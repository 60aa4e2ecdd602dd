"""What a policy can detect in feature maps: the area under the ROC curve of clean against attacked images.

Usage: python benchmarks/policy_maps.py STANDARD ROBUST EPS

STANDARD and ROBUST are runs on the same data, such as those of `fashion_mnist_adversarial.yaml`. For each
kind of maps a policy of a quarter of the published width learns, in 350 steps of 128 images, to tell clean training
images from those that PGD-10 has attacked on the standard network in an l-infinity ball of radius EPS; the test images
are judged.
"""

from __future__ import annotations

import sys
from fractions import Fraction

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.attacks import PGD
from holdfast.ensembles import Policy
from holdfast.ensembles.composite import Maps, first_stage_maps, image_size_maps
from holdfast.rng import permutation
from holdfast.runs import load_model, prepare
from holdfast.threat import Linf

STEPS, HALF = 350, 64
KINDS: dict[str, Maps] = {
    "first stage": first_stage_maps,
    "image size": image_size_maps,
    "the image itself": lambda model, x: x,
}


def detector(maps: Maps, networks: tuple[nn.Module, nn.Module], clean: Tensor, attacked: Tensor) -> nn.Module:
    """A policy that has learned to tell the two kinds of images apart."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        counts = [maps(network, clean[:1]).shape[1] for network in networks]
        policy = Policy((counts[0], counts[1]), width=0.25).train()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    truth = torch.cat([torch.zeros(HALF), torch.ones(HALF)])
    for step in range(STEPS):
        rows = permutation(len(clean), 0, f"step {step}")[:HALF]
        x = torch.cat([clean[rows], attacked[rows]])
        with torch.no_grad():
            shown = [maps(network, x) for network in networks]
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(policy(*shown), truth).backward()
        optimizer.step()
    return policy.eval()


def area(clean: Tensor, attacked: Tensor) -> float:
    """How often an attacked image has the higher score of two; ties count half."""
    higher, equal = attacked[:, None] > clean, attacked[:, None] == clean
    return float((higher + 0.5 * equal).mean())


def main(standard: str, robust: str, eps: str) -> None:
    """Print one line for each kind of maps."""
    loaded = load_model(standard)
    networks = (loaded.model.eval(), load_model(robust).model.eval())
    splits = prepare(loaded.card.recipe.data, loaded.card.recipe.seed)
    assert splits.train is not None
    attack = PGD(threat=Linf(float(Fraction(eps))), steps=10, until_lost=False)
    images = []
    for split in (splits.train, splits.test):
        x, y = split.batch(slice(None))
        pairs = zip(x.split(256), y.split(256), strict=True)
        images.append((x, torch.cat([attack(networks[0], *pair) for pair in pairs])))
    for name, maps in KINDS.items():
        policy = detector(maps, networks, *images[0])
        with torch.no_grad():
            scores = [policy(*(maps(network, x) for network in networks)) for x in images[1]]
        print(f"{name:17} {area(*scores):.3f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
