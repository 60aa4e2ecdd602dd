"""Classifiers around classifiers, for defences that an attack cannot see through on its own.

They pass attributes and `narrow` on to the model inside, so that they stack with each other and with `queries.Counted`:
`Counted(ExpectedOverRandomness(f, 8), counts)` counts an expectation once, the other way round counts every draw.

Each has the classifier it is `wrapped` around, can be put `around` another one, and knows what is `inside` it: the
classifier of the same images without the defence or the average. `replaced` exchanges modules behind any of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.modes import modules_of
from holdfast.queries import narrow
from holdfast.types import Classifier


class ExpectedOverRandomness:
    r"""A stochastic classifier averaged over its own randomness (EOT).

    .. math:: \bar f(x) = \frac1n \sum_{i=1}^n f(x;\, r_i)

    The mean is over logits. The mean of log-probabilities differs from it by one number per example, which none of the
    losses sees. The gradient is the mean of the draws' gradients for every loss that is linear in differences of logits
    (`margin`), and goes through the mean prediction for the others.

    Args:
        model: the stochastic classifier; every pass draws anew, from wherever the model takes its random numbers.
        draws: passes per question.

    Reference:
        Athalye et al., Synthesizing Robust Adversarial Examples, ICML 2018, arXiv:1707.07397. Differs: the expectation
        is of the logits, not of the loss, so that it serves every attack and loss.
    """

    def __init__(self, model: Classifier, draws: int) -> None:
        if draws < 1:
            raise ValueError(f"draws must be at least 1, got {draws}")
        self._model = model
        self.draws = draws

    def __call__(self, x: Tensor) -> Tensor:
        """Mean logits."""
        total = self._model(x)
        for _ in range(self.draws - 1):
            total = total + self._model(x)
        return total / self.draws

    @property
    def wrapped(self) -> Classifier:
        """The stochastic classifier."""
        return self._model

    @property
    def inside(self) -> Classifier:
        """The classifier of one draw."""
        return self._model

    def around(self, model: Classifier) -> ExpectedOverRandomness:
        """The same average of another classifier."""
        return ExpectedOverRandomness(model, self.draws)

    def narrow(self, selection: Tensor) -> ExpectedOverRandomness:
        """The same for a selection of the batch."""
        return self.around(narrow(self._model, selection))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def identity(x: Tensor) -> Tensor:
    """Its argument."""
    return x


class BPDA:
    r"""A classifier behind a preprocessing without a useful gradient, which attacks differentiate through a stand-in.

    .. math:: \text{forward } f(g(x)), \qquad \text{backward } \nabla_x \approx J_s(x)^T\, \nabla f\big|_{g(x)}

    Args:
        model: the classifier :math:`f`.
        preprocess: :math:`g`, such as rounding, JPEG or a denoiser.
        stand_in: a differentiable :math:`s \approx g` with results of the same shape; the identity is the
            straight-through estimator.

    Reference:
        Athalye, Carlini, Wagner, Obfuscated Gradients Give a False Sense of Security, ICML 2018, arXiv:1802.00420,
        section 4.1.
    """

    def __init__(
        self,
        model: Classifier,
        preprocess: Callable[[Tensor], Tensor],
        stand_in: Callable[[Tensor], Tensor] = identity,
    ) -> None:
        self._model = model
        self._preprocess = preprocess
        self._stand_in = stand_in

    def __call__(self, x: Tensor) -> Tensor:
        """Logits of the preprocessed images, exactly."""
        with torch.no_grad():
            seen = self._preprocess(x)
        if not (x.requires_grad and torch.is_grad_enabled()):
            return self._model(seen)
        stand_in = self._stand_in(x)
        if stand_in.shape != seen.shape:
            raise ValueError(f"stand_in gives shape {tuple(stand_in.shape)}, preprocess {tuple(seen.shape)}")
        passed: Tensor = _ValueOf.apply(seen, stand_in)  # type: ignore[no-untyped-call]
        return self._model(passed)

    @property
    def wrapped(self) -> Classifier:
        """The classifier behind the preprocessing."""
        return self._model

    def inside(self, x: Tensor) -> Tensor:
        """Logits of the images through the stand-in alone, without the preprocessing."""
        return self._model(self._stand_in(x))

    def around(self, model: Classifier) -> BPDA:
        """The same preprocessing in front of another classifier."""
        return BPDA(model, self._preprocess, self._stand_in)

    def narrow(self, selection: Tensor) -> BPDA:
        """The same for a selection of the batch."""
        return self.around(narrow(self._model, selection))

    def modules(self) -> Iterator[nn.Module]:
        """Those of the classifier, the preprocessing and the stand-in: all of them have modes."""
        return modules_of((self._model, self._preprocess, self._stand_in))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class _ValueOf(torch.autograd.Function):
    """The value of the first argument with the gradient of the second; a sum and difference would round."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, stand_in: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        return None, gradients[0]


def replaced(model: Classifier, kind: type[nn.Module], change: Callable[[Any], Classifier]) -> Classifier:
    """The model with every module of a kind changed, also behind wrappers and inside other modules.

    Nothing is changed in place: modules on the way to the changed ones are copied, weights are shared. A model without
    any, or whose modules the change leaves as they are, is returned itself.

    Args:
        model: the classifier.
        kind: what to look for; the outermost modules of this kind are changed.
        change: such a module to what takes its place.
    """
    if isinstance(model, kind):
        return change(model)
    if isinstance(model, nn.Module):
        return _with_children(model, {n: replaced(child, kind, change) for n, child in model.named_children()})
    for inner, rebuild in (("watched", "watching"), ("wrapped", "around")):
        if hasattr(type(model), inner):
            before: Classifier = getattr(model, inner)
            after = replaced(before, kind, change)
            return model if after is before else getattr(model, rebuild)(after)
    return model


def _with_children(module: nn.Module, children: dict[str, Any]) -> nn.Module:
    """A module with these children, its own where none of them is new."""
    if all(child is getattr(module, name) for name, child in children.items()):
        return module
    twin = copy.copy(module)
    made = {name: child if isinstance(child, nn.Module) else _Function(child) for name, child in children.items()}
    twin.__dict__["_modules"] = {**module._modules, **made}
    return twin


class _Function(nn.Module):
    """A classifier that is no module, where a module is expected."""

    def __init__(self, call: Classifier) -> None:
        super().__init__()
        self._call = call

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self._call(x)
