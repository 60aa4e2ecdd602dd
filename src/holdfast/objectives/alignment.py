"""Model alignment: a network learns to answer as others do, so that attacks on it transfer better."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.errors import ModelError, unknown
from holdfast.models.head import Whole, linear_head
from holdfast.modes import evaluating
from holdfast.objectives.batch_stats import normalisations
from holdfast.objectives.embedding_distances import EmbeddingDistance
from holdfast.objectives.hooks import Hooks
from holdfast.objectives.passes import Passes
from holdfast.rng import Streams, derive
from holdfast.types import Classifier, Terms

BatchNorm = Literal["train", "frozen", "recalibrate"]
KINDS: tuple[BatchNorm, ...] = ("train", "frozen", "recalibrate")
NAME = "align"


@dataclass(frozen=True, kw_only=True)
class Align:
    r"""Divergence of the network's answers from those of frozen witnesses, and distances of their features.

    .. math:: \frac1M \sum_{m=1}^M \Bigl( w\,\frac{T^2}{N} \sum_i
        \mathrm{KL}\bigl(\mathrm{softmax}(g_m(x_i) / T)\,\|\,\mathrm{softmax}(f(x_i) / T)\bigr)
        + d\bigl(P_m q_f(x), q_m(x)\bigr) \Bigr)

    It starts from a trained network (`train.init_from`), and attacks on the result transfer better, its thesis says.
    Labels are not used, except by the distance `nce`. The mean over witnesses is one of divergences, not the divergence
    from their mean answer. :math:`q` are the features before the head; the linear maps :math:`P_m` are trained along
    and then dropped.

    Args:
        witnesses: runs of trained networks on the same images, a directory (its best weights, else its last) or one
            weights file each; `{seed}` in them stands for the seed of the run.
        temperature: :math:`T`.
        output: :math:`w`. The embedding losses of the thesis are without this term, so 0; its authors' research code
            has it.
        embedding: :math:`d`: `rkd`, `ega`, `hint` or `nce`; None for alignment of outputs alone.
        batch_norm: what layers with running statistics do: `train`, as published, normalises by the batch and moves the
            statistics; `frozen` leaves them as they are and normalises by them; `recalibrate` is `train`, after which
            the statistics are computed anew from all training images at the end of each epoch.

    Reference:
        Ma, Farahmand, Pan, Torr, Gu, Improving Adversarial Transferability via Model Alignment, ECCV 2024,
        arXiv:2311.18495; Ma, thesis, Toronto 2025, equation 6.1 and section 6.5.
    """

    passes: ClassVar[Passes] = Passes(1, 1)

    witnesses: tuple[str, ...]
    temperature: float = 4.0
    output: float = 1.0
    embedding: EmbeddingDistance | None = None
    batch_norm: BatchNorm = "train"

    def __post_init__(self) -> None:
        if not self.witnesses or not all(path.strip() for path in self.witnesses):
            raise ValueError("witnesses: expected directories of runs or weights files, got nothing")
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be positive and finite, got {self.temperature}")
        if not 0 <= self.output < math.inf:
            raise ValueError(f"output must be finite and not negative, got {self.output}")
        if not self.output and self.embedding is None:
            raise ValueError("expected a positive weight of the output, or an embedding distance")
        if self.batch_norm not in KINDS:
            raise ValueError(f"batch_norm: {unknown(self.batch_norm, KINDS)}")

    @property
    def soft_labels(self) -> bool:
        """Whether labels may be distributions: unless the distance of the embeddings needs classes."""
        return self.embedding is None or not self.embedding.uses_labels

    def on(self, networks: Sequence[Classifier]) -> Alignment:
        """The objective with its witnesses, one for each path."""
        if len(networks) != len(self.witnesses):
            raise ValueError(f"expected {len(self.witnesses)} witnesses, got {len(networks)}")
        return Alignment(self, tuple(networks))

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Refused: somebody has to load the witnesses first.

        Raises:
            ModelError: always.
        """
        raise ModelError("align: its witnesses are runs, which are loaded for train.objective; in Python, use on(...)")


@dataclass(frozen=True, eq=False)
class Alignment:
    """The objective with its witnesses, which stay as they are, statistics of BatchNorm included.

    Args:
        settings: what a recipe says.
        witnesses: the networks, for images in [0, 1].
    """

    settings: Align
    witnesses: tuple[Classifier, ...]

    @property
    def soft_labels(self) -> bool:
        """As the settings."""
        return self.settings.soft_labels

    @property
    def passes(self) -> Passes:
        """Through the network that is trained; each witness has a forward pass of its own beside them."""
        return self.settings.passes

    @property
    def hooks(self) -> Hooks:
        """The same with linear maps that are trained with the network."""
        return Hooks(start=self._start)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a first batch, with fresh linear maps; `rng` is not used."""
        terms: Terms = AlignmentAtWork(self, model, checked=True)(model, x, y)
        return terms

    def _start(self, model: nn.Module, classes: int, examples: Tensor) -> nn.Module:
        where = next(model.parameters(), torch.empty(0)).device
        for witness in self.witnesses:
            if isinstance(witness, nn.Module):
                witness.to(where)
        return AlignmentAtWork(self, model)


class AlignmentAtWork(nn.Module):
    """The objective with the linear maps that it trains. The witnesses are no part of its state.

    Args:
        objective: settings and witnesses.
        model: the network that is trained.
        checked: whether it is known that the network is its head applied to its features.
    """

    def __init__(self, objective: Alignment, model: Classifier, *, checked: bool = False) -> None:
        super().__init__()
        self.settings, self.witnesses = objective.settings, list(objective.witnesses)
        self._whole = Whole(NAME, checked)
        maps = [] if self.settings.embedding is None else [_linear_map(model, one) for one in self.witnesses]
        self.maps = nn.ModuleList(maps)

    @property
    def hooks(self) -> Hooks:
        """What it trains, and what it does after an epoch."""
        hooks = Hooks(parameters=lambda: list(self.maps.parameters()))
        return replace(hooks, settle=_recalibrate) if self.settings.batch_norm == "recalibrate" else hooks

    def forward(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch."""
        settings, parts = self.settings, {}
        with _frozen_statistics(model, settings.batch_norm == "frozen"):
            logits, features = self._answers(model, x)
        answers = [_of_witness(witness, x, features is not None) for witness in self.witnesses]
        if settings.output:
            parts["output"] = _mean(divergence(logits, theirs, settings.temperature) for theirs, _ in answers)
        if settings.embedding is not None and features is not None:
            mapped: list[Tensor] = [linear_map(features.to(answers[0][1])) for linear_map in self.maps]
            pairs = zip(mapped, answers, strict=True)
            parts["embedding"] = _mean(settings.embedding(own, theirs.to(own), y) for own, (_, theirs) in pairs)
        weights = {"output": settings.output, "embedding": 1.0}
        total = torch.stack([weights[name] * part for name, part in parts.items()]).sum()
        return Terms(total, parts)

    def _answers(self, model: Classifier, x: Tensor) -> tuple[Tensor, Tensor | None]:
        if self.settings.embedding is None:
            return model(x), None
        head = self._whole.head_of(model, x)
        features = head.features(x)
        return head.logits(features), features


def divergence(source: Tensor, witness: Tensor, temperature: float) -> Tensor:
    r""":math:`T^2` times the mean divergence of tempered answers, witness from source; logits are (N, K)."""
    kind = torch.promote_types(source.dtype, torch.float32)
    ours, theirs = ((logits.to(kind) / temperature).log_softmax(1) for logits in (source, witness))
    return temperature**2 * F.kl_div(ours, theirs, reduction="batchmean", log_target=True)


@torch.no_grad()
def _of_witness(witness: Classifier, x: Tensor, with_features: bool) -> tuple[Tensor, Tensor]:
    """Logits, and features if they are wanted, in evaluation mode and in the witness' own precision."""
    if isinstance(witness, nn.Module):
        first: Tensor = next(witness.parameters(), x)
        x = x.to(first.dtype)
    with evaluating(witness):
        if not with_features:
            return witness(x), x
        head = linear_head(witness, f"{NAME}: a witness")
        features = head.features(x)
        return head.logits(features), features


def _linear_map(model: Classifier, witness: Classifier) -> nn.Linear:
    """From the features of the network to those of a witness; always the same fresh weights."""
    own, theirs = linear_head(model, NAME).weight, linear_head(witness, f"{NAME}: a witness").weight
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive(0, "linear map of features"))
        return nn.Linear(own.shape[1], theirs.shape[1]).to(own)


def _mean(values: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(values)).mean()


@contextmanager
def _frozen_statistics(model: object, wanted: bool) -> Iterator[None]:
    """Layers with running statistics normalise by them and leave them alone."""
    layers = [layer for layer in normalisations(model) if layer.training] if wanted else []
    for layer in layers:
        layer.training = False
    try:
        yield
    finally:
        for layer in layers:
            layer.training = True


@torch.no_grad()
def _recalibrate(model: nn.Module, batches: Iterable[Tensor]) -> None:
    """Running statistics as the mean over these batches."""
    layers: list[Any] = normalisations(model)
    momenta = [layer.momentum for layer in layers]
    with evaluating(model):
        for layer in layers:
            layer.reset_running_stats()
            layer.training, layer.momentum = True, None  # which means the mean of all batches so far
        try:
            for x in batches if layers else ():
                model(x)
        finally:
            for layer, momentum in zip(layers, momenta, strict=True):
                layer.momentum = momentum
