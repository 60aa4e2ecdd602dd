r"""Lipschitz bounds of networks, layer by layer along their graph.

The forward pass is recorded once (`torch.fx`) and followed with a bound :math:`K` of how much longer each value's
difference can be than that of the input:

- linear layer :math:`A`: :math:`\|A\|_p K`; neighbouring linear layers count as one where that has a formula, so that
  BatchNorm is folded into the layer before it and the normalisation of the images into the layer after it;
- activation: its largest slope times :math:`K`;
- sum of branches: :math:`K_1 + K_2`; concatenation: the norm of :math:`(K_1, K_2)`;
- values that are copied :math:`m` times each: :math:`m^{1/p} K`.

Everything else is refused by name: an operation without a rule has no bound. Norms and their products are rounded up,
so that the bound holds in exact arithmetic of the weights as they are stored (`rounding`).

Reference:
    Szegedy et al., Intriguing properties of neural networks, ICLR 2014, arXiv:1312.6199, section 4.3.
    Tsuzuku, Sato, Sugiyama, Lipschitz-Margin Training, NeurIPS 2018, arXiv:1802.04034.
    Gouk, Frank, Pfahringer, Cree, Regularisation of neural networks by enforcing Lipschitz continuity, Machine Learning
    110, 2021, arXiv:1804.04368 (the plain product of the norms of layers).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.errors import ModelError, unknown
from holdfast.lipschitz.graph import Walk
from holdfast.lipschitz.lower import lipschitz_lower
from holdfast.lipschitz.norms import ORDER
from holdfast.lipschitz.radii import Norm
from holdfast.lipschitz.tally import LayerBound, Tally
from holdfast.lipschitz.values import Value, read
from holdfast.modes import evaluating
from holdfast.rng import Streams
from holdfast.types import Classifier


@dataclass(frozen=True)
class LipschitzBound:
    """Upper and lower bound of a network's Lipschitz constant.

    Args:
        upper: never below the constant, rounding included.
        lower: never above it; None if it was not requested.
        layers: where `upper` comes from, in the order of the forward pass. Factors of 1 are left out, but for layers
            with weights.
        norm: of inputs and outputs.
    """

    upper: float
    lower: float | None
    layers: tuple[LayerBound, ...]
    norm: Norm

    @property
    def gap(self) -> float | None:
        """How many times too large `upper` is at most; None without `lower`."""
        return None if self.lower is None else self.upper / self.lower if self.lower > 0 else math.inf


def lipschitz_bound(
    model: Classifier,
    x: Tensor,
    *,
    norm: Norm = "l2",
    lower_steps: int = 0,
    power_steps: int = 0,
    merge: bool = True,
    rng: Streams | None = None,
) -> LipschitzBound:
    r"""Enclose the constant :math:`K_p` with :math:`\|f(x) - f(z)\|_p \le K_p \|x - z\|_p` for all :math:`x, z`.

    The network is used in evaluation mode and left as it is.

    Args:
        model: an `nn.Module` whose forward pass does not depend on the values of its input.
        x: images, (N, ...), for their size and as starts of the lower bound.
        norm: :math:`\ell_p` of inputs and outputs.
        lower_steps: steps of the search for the lower bound; 0 for none.
        power_steps: maximum of iterations for the estimate of each layer whose norm is only bounded; 0 for none.
        merge: whether neighbouring linear layers count as one where that has a formula; without, the bound is the
            product of the norms of all layers, as Gouk et al. compute it.
        rng: randomness of the lower bound.

    Raises:
        ModelError: if there is a layer or an operation without a finite bound, or the forward pass cannot be followed.
    """
    if norm not in ORDER:
        raise ValueError(f"lipschitz_bound: norm: {unknown(norm, ORDER)}")
    if x.dim() < 2 or not len(x):
        raise ValueError(f"lipschitz_bound: expected a batch of images, got a tensor of shape {tuple(x.shape)}")
    if not isinstance(model, nn.Module):
        raise ModelError(f"lipschitz bound: expected an nn.Module, got a {type(model).__name__}")
    tally = Tally(norm, power_steps, merge)
    result = followed(tally, model, x)
    upper = tally.settle(result)
    lower = lipschitz_lower(model, x, norm=norm, steps=lower_steps, rng=rng) if lower_steps else None
    if lower is not None and upper < lower <= (1 + 1e-9) * upper:
        lower = upper  # for a linear network both are equal up to rounding
    return LipschitzBound(upper, lower, tuple(tally.layers), norm)


def followed(tally: Tally, model: nn.Module, x: Tensor) -> Value:
    """The logits of a network in evaluation mode, with the tally's bounds.

    Raises:
        ModelError: as `lipschitz_bound`.
    """
    with evaluating(model), torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.no_grad():
        generator = torch.get_rng_state()
        # Two examples and zeros: whether any layer mixes them, and how large values are.
        images = torch.cat((x[:1], x[-1:], torch.zeros_like(x[:1])))
        result = Walk(tally)(model, Value(images.clone(), 1.0))  # a copy, for layers that write to it
        if not torch.equal(generator, torch.get_rng_state()):
            raise ModelError("lipschitz bound: the forward pass draws random numbers")
        if isinstance(result, Value):
            tally.settle(result)
        _agree(result, model, images)
    return result if isinstance(result, Value) else Value(result, 0.0)


def _agree(result: Any, model: nn.Module, images: Tensor) -> None:
    """Refuse a network that depends on writes in place, earlier calls or the rest of the batch, unlike its graph."""
    recorded, logits = read(result), model(images.clone())
    if not isinstance(recorded, Tensor) or not isinstance(logits, Tensor):
        raise ModelError(f"lipschitz bound: expected a network that returns logits, got a {type(logits).__name__}")
    if not logits.isfinite().all():
        raise ModelError("lipschitz bound: the logits are not finite")
    scale = logits.abs().amax().item()
    if not torch.allclose(model(images[:1].clone()), logits[:1], rtol=1e-3, atol=1e-3 * scale):
        raise ModelError("lipschitz bound: the logits of an image depend on the rest of the batch or on earlier calls")
    if recorded.shape != logits.shape or not torch.allclose(recorded, logits, rtol=1e-3, atol=1e-3 * scale):
        raise ModelError("lipschitz bound: the recorded forward pass gives other logits than the network")
