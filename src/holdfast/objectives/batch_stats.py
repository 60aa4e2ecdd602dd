r"""What BatchNorm does while an adversarial objective attacks, and while it takes its loss.

A layer that normalises by its batch treats clean and adversarial images differently, and keeps running statistics for
evaluation. An adversarial objective passes both kinds through the network, so the statistics must be chosen:

- `frozen`: the attack uses the network in eval mode, as it is evaluated later: running statistics, without updates.
  The loss is taken in train mode. Clean and adversarial images pass one after the other, each normalised by its own
  batch, and both update the running statistics.
- `mixed`: the attack uses statistics of the batch that it attacks; running ones are not updated. Other layers, dropout
  among them, stay in eval mode. The loss is as with `frozen`.
- `split`: clean and adversarial images have separate running statistics. The attack is in eval mode and uses the
  adversarial ones; in the loss each kind updates its own. The network keeps the clean ones, so that evaluation uses
  those; the others are part of the training state. Weights and biases of the layers are shared.
- `split_adversarial`: as `split`, and the network keeps the adversarial ones.

Networks without BatchNorm, and layers that were frozen by hand, are not affected.

Reference:
    Xie et al., Adversarial Examples Improve Image Recognition, CVPR 2020, arXiv:1911.09665, section 3 (an auxiliary
    BatchNorm for adversarial images; there with weights of its own). Pang et al., Bag of Tricks for Adversarial
    Training, ICLR 2021, arXiv:2010.00467, section 3 (train or eval mode of the attack).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from holdfast.errors import unknown
from holdfast.modes import evaluating
from holdfast.types import Classifier
from holdfast.wrappers import InCurrentModes

BatchStats = Literal["frozen", "mixed", "split", "split_adversarial"]
BATCH_STATS: tuple[BatchStats, ...] = ("frozen", "mixed", "split", "split_adversarial")
BUFFERS = ("running_mean", "running_var", "num_batches_tracked")


def check_batch_stats(kind: str) -> None:
    """Refuse unknown names."""
    if kind not in BATCH_STATS:
        raise ValueError(f"batch_stats: {unknown(kind, BATCH_STATS)}")


class Statistics(nn.Module):
    """One of these kinds in use, with the statistics that the network does not keep.

    Args:
        kind: one of the above.
        model: network whose statistics it starts from.
    """

    def __init__(self, kind: BatchStats, model: object) -> None:
        super().__init__()
        self.kind = kind
        for place, layer in enumerate(normalisations(model) if kind in ("split", "split_adversarial") else ()):
            for name in BUFFERS:
                self.register_buffer(f"{name}_{place}", getattr(layer, name).clone())

    @contextmanager
    def attacking(self, model: Classifier, *, clean: bool = False) -> Iterator[Classifier]:
        """The network for the attack, which must keep its modes; `clean` where the attack uses clean images."""
        moving = [layer for layer in normalisations(model) if layer.training] if self.kind == "mixed" else []
        with evaluating(model), self.clean(model) if clean else self.adversarial(model), _by_the_batch(moving):
            yield InCurrentModes(model)

    @contextmanager
    def clean(self, model: object) -> Iterator[None]:
        """The network with the statistics of clean images; its mode is left alone."""
        with self._others(model, self.kind == "split_adversarial"):
            yield

    @contextmanager
    def adversarial(self, model: object) -> Iterator[None]:
        """The network with the statistics of adversarial images; its mode is left alone."""
        with self._others(model, self.kind == "split"):
            yield

    @contextmanager
    def _others(self, model: object, wanted: bool) -> Iterator[None]:
        layers = normalisations(model) if wanted else []
        self._exchange(layers)
        try:
            yield
        finally:
            self._exchange(layers)

    def _exchange(self, layers: Sequence[Any]) -> None:
        for place, layer in enumerate(layers):
            for name in BUFFERS:
                mine, theirs = getattr(self, f"{name}_{place}"), getattr(layer, name)
                setattr(self, f"{name}_{place}", theirs)
                setattr(layer, name, mine)


def normalisations(model: object) -> list[Any]:
    """The layers with running statistics, in the order of the network."""
    modules = model.modules() if isinstance(model, nn.Module) else ()
    return [layer for layer in modules if isinstance(layer, _BatchNorm) and layer.running_mean is not None]


@contextmanager
def _by_the_batch(layers: Sequence[Any]) -> Iterator[None]:
    """Let these layers normalise by their batch, without updates of running statistics."""
    with ExitStack() as stack:
        for layer in layers:
            stack.callback(setattr, layer, "training", layer.training)
            stack.callback(setattr, layer, "track_running_stats", layer.track_running_stats)
            layer.training, layer.track_running_stats = True, False
        yield
