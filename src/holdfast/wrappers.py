"""Classifiers around classifiers: they count, watch and limit what a method asks, or average and preprocess.

A method gets a classifier and calls it; whatever else a call should do stands around that classifier and not in the
method. All wrappers are a `Wrapper`, so that they stack: `Counted(ExpectedOverRandomness(f, 8), counts)` counts an
expectation once, the other way round counts every draw.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from holdfast.errors import ModelError
from holdfast.modes import modules_of
from holdfast.types import Classifier


@dataclass(frozen=True, eq=False)
class Wrapper:
    """A classifier around another one; a subclass adds its fields and `__call__`.

    Attributes that the wrapper lacks are those of the classifier inside, and a wrapper that keeps something per example
    narrows that as well in `narrow`.

    Args:
        wrapped: the classifier inside.
    """

    transparent: ClassVar[bool] = True
    """Whether its answers are those of the classifier inside, so that who reads weights may look through it."""

    wrapped: Classifier

    def around(self, model: Classifier, **fields: Any) -> Self:
        """The same wrapper around another classifier, with other values of some fields if they are given."""
        twin = object.__new__(type(self))  # a batch may narrow at every step, and `dataclasses.replace` takes its time
        vars(twin).update(vars(self), wrapped=model, **fields)
        return twin

    def narrow(self, selection: Tensor) -> Self:
        """The same for a part of the batch, by mask or indices."""
        return self.around(narrow(self.wrapped, selection))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)


def narrow(model: Classifier, selection: Tensor) -> Classifier:
    """The model for a part of the batch, by mask or indices, to be called whenever examples leave it.

    Classifiers that keep something per example have a method of this name; plain models do not care.
    """
    method: Callable[[Tensor], Classifier] | None = getattr(model, "narrow", None)
    return model if method is None else method(selection)


def network(model: Classifier) -> Classifier:
    """The classifier behind transparent wrappers, for methods that read its weights."""
    while isinstance(model, Wrapper) and model.transparent:
        model = model.wrapped
    return model


def behind(model: Classifier, change: Callable[[Any], Classifier]) -> Classifier:
    """The model with another classifier behind its transparent wrappers, made of the one that was there."""
    if isinstance(model, Wrapper) and model.transparent:
        return model.around(behind(model.wrapped, change))
    return change(model)


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
    if isinstance(model, Wrapper):
        inner = replaced(model.wrapped, kind, change)
        return model if inner is model.wrapped else model.around(inner)
    return model


def replaced_by_name(model: Classifier, names: Collection[str], change: Callable[[nn.Module], nn.Module]) -> Classifier:
    """As `replaced`, for the outermost modules that have one of these names in the module around them."""
    if isinstance(model, nn.Module):
        return _with_children(
            model,
            {
                name: change(child) if name in names else replaced_by_name(child, names, change)
                for name, child in model.named_children()
            },
        )
    if isinstance(model, Wrapper):
        inner = replaced_by_name(model.wrapped, names, change)
        return model if inner is model.wrapped else model.around(inner)
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


@dataclass(frozen=True, eq=False)
class Counted(Wrapper):
    """A classifier that counts forward passes per example in `counts`, (N,) int64, and backward passes if wanted.

    Args:
        wrapped: the classifier asked.
        counts: where to count, shared with the narrowed copies.
        entries: which entry of `counts` each row of a batch belongs to; None means row i is entry i.
        gradients: where to count how often the answers are differentiated; None for nowhere.
    """

    counts: Tensor
    entries: Tensor | None = None
    gradients: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """Logits; a batch whose length is a multiple of the examples' asks about each as often."""
        examples = len(self.counts if self.entries is None else self.entries)
        if len(x) % examples:
            raise ValueError(f"{len(x)} rows asked about {examples} examples: call narrow() when some leave")
        times, gradients = len(x) // examples, self.gradients
        self._add(self.counts, times)
        logits = self.wrapped(x)
        if gradients is not None and logits.requires_grad:
            logits.register_hook(lambda _: self._add(gradients, times))  # type: ignore[no-untyped-call]
        return logits

    def _add(self, counts: Tensor, times: int) -> None:
        """Count so many passes for each example of the batch."""
        if self.entries is None:
            counts.add_(times)
        else:
            counts.index_add_(0, self.entries, torch.full_like(self.entries, times))

    def narrow(self, selection: Tensor) -> Self:
        """Count only for the selected examples from now on."""
        all_entries = torch.arange(len(self.counts), device=self.counts.device)
        entries = (all_entries if self.entries is None else self.entries)[selection.to(self.counts.device)]
        return self.around(narrow(self.wrapped, selection), entries=entries)


class Shared:
    """A classifier asked by code that does not say whose a row is: every example of its batch gets an equal share.

    A question about a multiple of the examples is about each as often. What is left over goes to them in turn, so that
    the sum of their counts is the number of rows and no two differ by more than one.

    Args:
        model: the classifier asked, narrowed to the examples.
        count: how many they are.
    """

    def __init__(self, model: Classifier, count: int) -> None:
        self._model, self._count, self._next = model, count, 0

    def __call__(self, x: Tensor) -> Tensor:
        """Logits."""
        left = len(x) % self._count
        if not left:
            return self._model(x)
        turn = (torch.arange(left) + self._next) % self._count
        self._next = (self._next + left) % self._count
        rest = narrow(self._model, turn)(x[len(x) - left :])
        return torch.cat((self._model(x[: len(x) - left]), rest)) if len(x) > left else rest


class OutOfTimeError(Exception):
    """The budget is spent; the batch under way is lost, what was written is not."""


@dataclass(frozen=True, eq=False)
class Deadline(Wrapper):
    """A classifier that answers until a moment of `time.monotonic`, and raises `OutOfTimeError` after it.

    Args:
        wrapped: the classifier.
        until: the moment; infinity for never.
    """

    until: float

    def __call__(self, x: Tensor) -> Tensor:
        """Logits."""
        if time.monotonic() >= self.until:
            raise OutOfTimeError
        return self.wrapped(x)


def end_of(budget: float | None) -> float:
    """When a budget of so many seconds that starts now is spent, for `Deadline`."""
    return math.inf if budget is None else time.monotonic() + budget


@dataclass(frozen=True, eq=False)
class WithoutNaN(Wrapper):
    """A classifier whose NaN logits are an error: counted, they would be votes for some class."""

    def __call__(self, x: Tensor) -> Tensor:
        """Logits."""
        logits = self.wrapped(x)
        if bad := int(logits.isnan().any(1).sum()):
            raise ModelError(f"the logits are NaN for {bad} of {len(x)} images, noisy copies included")
        return logits


@dataclass(frozen=True, eq=False)
class InCurrentModes(Wrapper):
    """A classifier that public calls leave in the modes that it is in, for callers who chose those on purpose."""

    def __call__(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.wrapped(x)

    def modules(self) -> Iterator[nn.Module]:
        """No modules whose mode may be switched."""
        return iter(())


@dataclass(frozen=True, eq=False)
class Defence(Wrapper):
    """A wrapper whose answers are others than those of the classifier inside."""

    transparent: ClassVar = False

    @property
    def inside(self) -> Classifier:
        """The classifier of the same images without the defence."""
        return self.wrapped


@dataclass(frozen=True, eq=False)
class ExpectedOverRandomness(Defence):
    r"""A stochastic classifier averaged over its own randomness (EOT).

    .. math:: \bar f(x) = \frac1n \sum_{i=1}^n f(x;\, r_i)

    The mean is over logits. The mean of log-probabilities differs from it by one number per example, which none of the
    losses sees. The gradient is the mean of the draws' gradients for every loss that is linear in differences of logits
    (`margin`), and goes through the mean prediction for the others.

    Args:
        wrapped: the stochastic classifier; every pass draws anew, from wherever the model takes its random numbers.
        draws: passes per question.

    Reference:
        Athalye et al., Synthesizing Robust Adversarial Examples, ICML 2018, arXiv:1707.07397. Differs: the expectation
        is of the logits, not of the loss, so that it serves every attack and loss.
    """

    draws: int

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise ValueError(f"draws must be at least 1, got {self.draws}")

    def __call__(self, x: Tensor) -> Tensor:
        """Mean logits."""
        total = self.wrapped(x)
        for _ in range(self.draws - 1):
            total = total + self.wrapped(x)
        return total / self.draws


def identity(x: Tensor) -> Tensor:
    """Its argument."""
    return x


@dataclass(frozen=True, eq=False)
class BPDA(Defence):
    r"""A classifier behind a preprocessing without a useful gradient, which attacks differentiate through a stand-in.

    .. math:: \text{forward } f(g(x)), \qquad \text{backward } \nabla_x \approx J_s(x)^T\, \nabla f\big|_{g(x)}

    Args:
        wrapped: the classifier :math:`f`.
        preprocess: :math:`g`, such as rounding, JPEG or a denoiser.
        stand_in: a differentiable :math:`s \approx g` with results of the same shape; the identity is the
            straight-through estimator.

    Reference:
        Athalye, Carlini, Wagner, Obfuscated Gradients Give a False Sense of Security, ICML 2018, arXiv:1802.00420,
        section 4.1.
    """

    preprocess: Callable[[Tensor], Tensor]
    stand_in: Callable[[Tensor], Tensor] = identity

    def __call__(self, x: Tensor) -> Tensor:
        """Logits of the preprocessed images, exactly."""
        with torch.no_grad():
            seen = self.preprocess(x)
        if not (x.requires_grad and torch.is_grad_enabled()):
            return self.wrapped(seen)
        stand_in = self.stand_in(x)
        if stand_in.shape != seen.shape:
            raise ValueError(f"stand_in gives shape {tuple(stand_in.shape)}, preprocess {tuple(seen.shape)}")
        return self.wrapped(with_value(seen, stand_in))

    @property
    def inside(self) -> Classifier:
        """Images to logits through the stand-in alone, without the preprocessing."""
        return lambda x: self.wrapped(self.stand_in(x))

    def modules(self) -> Iterator[nn.Module]:
        """Those of the classifier, the preprocessing and the stand-in: all of them have modes."""
        return modules_of((self.wrapped, self.preprocess, self.stand_in))


def with_value(value: Tensor, stand_in: Tensor) -> Tensor:
    """A value, exactly, with the gradient of a stand-in of the same shape."""
    result: Tensor = _ValueOf.apply(value, stand_in)  # type: ignore[no-untyped-call]
    return result


class _ValueOf(torch.autograd.Function):
    """The value of the first argument with the gradient of the second; a sum and difference would round."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, stand_in: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        return None, gradients[0]
