r"""Training of the policy that chooses, for every image, between an accurate classifier and a robust one."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from holdfast.attacks.search import require_metric_threat
from holdfast.crossing import crossing
from holdfast.ensembles.composite import AdaptiveComposite
from holdfast.ensembles.policy import LIMIT
from holdfast.errors import ModelError
from holdfast.gradients import input_gradient
from holdfast.losses import cross_entropy
from holdfast.modes import evaluating
from holdfast.objectives.aimed_data import BLOCK, Remembered, attacked, fits_in_memory, looked_at, pgd, right_answers
from holdfast.objectives.centroids import everywhere
from holdfast.objectives.hooks import Hooks
from holdfast.objectives.inner_maximisation import check_steps
from holdfast.objectives.passes import Passes
from holdfast.objectives.per_example_state import places_of
from holdfast.objectives.policy_loss import PolicyLoss
from holdfast.rng import Streams, permutation, streams
from holdfast.threat.shape import per_example
from holdfast.types import Classifier, Examples, Terms, Threat

STRENGTHS = (0.0, *(10 ** (-0.5 + 4 * k / 6) for k in range(7)), math.inf)
r""":math:`\alpha_t` of the paper: 0, 0.316, 1.46, 6.81, 31.6, 147, 681, 3162 and infinity."""


@dataclass(frozen=True, kw_only=True)
class PolicyTraining:
    r"""The composite loss on clean and on attacked images; only the policy of an adaptive composite learns.

    .. math:: \frac{1}{T + 2} \Bigl(\ell(x) + T\,\ell(z_t) + \mathrm{CE}(z_\theta)\Bigr)

    is the mean over the paper's :math:`T + 2` kinds of data. :math:`\ell` is eq. 9 with :math:`\alpha^* = 0` for clean
    images, and for :math:`z_t`, which PGD finds when it aims at the mixture of strength :math:`\alpha_t`,

    .. math:: \alpha^* = \infty \text{ if } \alpha_t \le \alpha_0 > 0, \text{ else } 0.

    An example is attacked at one of the :math:`T` strengths each time it is seen, at each once before any comes again;
    images that come without augmentation are attacked once for each strength. :math:`z_\theta` is found by PGD through
    everything, the policy included, in 1 to `steps` steps, a number that is drawn for each example; the best choice
    there is unknown, so the loss is the cross entropy alone. The policy is in eval mode for that attack, and then sees
    all three kinds of images in one batch, so that BatchNorm does not reveal their kind.

    :math:`\alpha_0` is where the accuracies of the two classifiers cross, on validation images where there are any: on
    images that it was trained with, the robust classifier looks better than it is.

    Eq. 9 is right; the sentence after it in the paper says the opposite and has :math:`\alpha_t` in the place of
    :math:`\alpha^*`: the policy must trust the robust classifier where :math:`\alpha_t` is small.

    Args:
        threat: the set that attacks search.
        steps: number of steps of PGD, which starts at the image.
        step_size: in the threat's units; None for steps that are 2.5 radii long together.
        strengths: :math:`\alpha_t`, rising.
        alpha_0: :math:`\alpha_0`; None to find it before the first step.
        loss: eq. 9.

    Reference:
        Bai, Anderson, Sojoudi, Avoiding the Accuracy-Robustness Trade-off of Classifiers via Local Adaptive Smoothing,
        sections 5.3 and 6.3. Differs: PGD keeps the best point, not the last.
    """

    threat: Threat
    steps: int = 10
    step_size: float | None = None
    strengths: tuple[float, ...] = STRENGTHS
    alpha_0: float | None = None
    loss: PolicyLoss = field(default_factory=PolicyLoss)

    fixed_threat: ClassVar[bool] = True
    """Attacked images are kept from epoch to epoch, so their budget cannot grow."""

    def __post_init__(self) -> None:
        require_metric_threat("policy", self.threat)
        check_steps(self.steps, self.step_size)
        rising = all(low < high for low, high in zip(self.strengths, self.strengths[1:], strict=False))
        if not self.strengths or not self.strengths[0] >= 0 or not rising:
            raise ValueError(f"strengths must rise from 0 on, got {list(self.strengths)}")
        if self.alpha_0 is not None and not self.alpha_0 >= 0:
            raise ValueError(f"alpha_0 must not be negative, got {self.alpha_0}")

    @property
    def loss_passes(self) -> Passes:
        """Passes of the loss alone, for three kinds of images."""
        return Passes(3, 3)

    @property
    def passes(self) -> Passes:
        """Passes of one step without stored attacked images; the adaptive attack counts with its mean."""
        mean = self.steps // 2 + 1
        return Passes(self.steps + 1, self.steps) + Passes(mean, mean) + self.loss_passes

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        r"""Terms of a first batch; an :math:`\alpha_0` that is not given is found on the batch itself."""
        rng = streams(rng, x)
        work = Choosing(self, model, rng.indices).to(x.device)
        work.meet(_Batch(x, y, rng.indices), None, augmented=True)
        terms: Terms = work(model, x, y, rng=rng)
        return terms

    @property
    def hooks(self) -> Hooks:
        """The same with a memory of attacked images."""
        return Hooks(start=lambda model, classes, examples: Choosing(self, model, examples))


class Choosing(nn.Module):
    r"""The objective with its state: :math:`\alpha_0`, and how often each example was seen.

    Args:
        objective: its settings.
        model: the composite that is trained.
        examples: indices of the training examples, (n,).
    """

    alpha_0: Tensor
    seen: Tensor
    examples: Tensor

    def __init__(self, objective: PolicyTraining, model: object, examples: Tensor) -> None:
        super().__init__()
        if not isinstance(model, AdaptiveComposite):
            raise ModelError(f"policy trains the policy of an adaptive composite, got {type(model).__name__}")
        self.objective, self.attack = objective, pgd(objective.threat, objective.steps, objective.step_size)
        self._composite = (model,)  # not a part of this module
        self._remembered: Remembered | None = None
        self._judged: Examples | None = None
        given = math.nan if objective.alpha_0 is None else objective.alpha_0
        self.register_buffer("alpha_0", torch.tensor(given, dtype=torch.float64))
        self.register_buffer("examples", examples.sort().values, persistent=False)
        self.register_buffer("seen", torch.zeros(len(examples), dtype=torch.int64))

    @property
    def hooks(self) -> Hooks:
        """The images at hand, and what is made before an epoch."""
        return Hooks(meet=self.meet, prepare=self.prepare)

    def meet(self, train: Examples, validation: Examples | None, *, augmented: bool) -> None:
        """Keep the images, to store attacked ones and to find the crossing."""
        self._judged = train if validation is None else validation
        if not augmented and fits_in_memory(train, self.objective.strengths):
            self._remembered = Remembered(self.attack, self._composite[0], train, self.objective.strengths)

    def forward(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch."""
        rng, x = streams(rng, x), x.detach()
        for _ in self.prepare(rng.indices, x):  # nothing is left to do where the loop has done it before
            pass
        aim, which = self._aimed(x, y, rng.indices)
        # Of the network itself: a wrapper for several devices waits in each pass for the others, whose steps differ.
        adaptive = self._adaptive(self._composite[0], x, y, rng)
        strengths = torch.tensor(self.objective.strengths, dtype=torch.float64, device=x.device)
        # A crossing at 0 says that the accurate one answers better even where the attack aims at it alone.
        small = (strengths[which] <= self.alpha_0) & (self.alpha_0 > 0)
        robust = torch.cat([torch.zeros_like(small), small])
        logits, beta = model.decide(torch.cat([x, aim, adaptive]))  # type: ignore[attr-defined]
        losses = cross_entropy(logits, y.repeat(3))
        chosen = self.objective.loss(losses[: 2 * len(x)], beta[: 2 * len(x)], robust)
        return self._terms(chosen, losses[2 * len(x) :], beta)

    def _terms(self, chosen: Tensor, adaptive: Tensor, beta: Tensor) -> Terms:
        kinds, count = len(self.objective.strengths), len(adaptive)
        clean, aim, through = chosen[:count].mean(), chosen[count:].mean(), adaptive.mean()
        trusted = (beta.detach() > 0).to(beta.dtype).view(3, count)
        names = ("clean_robust", "aimed_robust", "adaptive_robust")
        shares = {name: part.mean() for name, part in zip(names, trusted, strict=True)}
        # A logarithm within the policy's own limits, since reports have no infinite numbers.
        threshold = self.alpha_0.log().clamp(-LIMIT, LIMIT)
        total = (clean + kinds * aim + through) / (kinds + 2)
        return Terms(total, {"clean": clean, "aimed": aim, "adaptive": through, **shares, "beta_0": threshold})

    def prepare(self, index: Tensor, like: Tensor) -> Iterator[tuple[int, int]]:
        """Find the crossing, and make the attacks that these examples need; yields the pieces done, of how many."""
        looks, missing = self._looks(), self._missing(index)
        pieces = itertools.chain(self._cross(looks, like), self._remember(missing, like))
        for done, _ in enumerate(pieces, 1):
            yield done, len(looks) + len(missing)

    def _looks(self) -> list[Tensor]:
        """Rows of the images for the crossing; none where it is known."""
        if not bool(self.alpha_0.isnan()):
            return []
        if self._judged is None:
            raise ModelError("policy: expected images to find alpha_0 on, or a given alpha_0")
        return looked_at(self._judged)

    def _missing(self, index: Tensor) -> list[tuple[int, int]]:
        if self._remembered is None:
            return []
        places = places_of("policy", self.examples, index)
        return self._remembered.missing(places, self._turns(places))

    def _cross(self, looks: list[Tensor], like: Tensor) -> Iterator[None]:
        if self._judged is None or not looks:
            return
        strengths = self.objective.strengths
        right = torch.zeros(2, len(strengths), dtype=torch.float64)
        for rows in looks:
            x, y = self._judged.batch(rows)
            right += right_answers(self.attack, self._composite[0], x.to(like), y.to(like.device), strengths)
            yield
        of_standard, of_robust = (right / sum(map(len, looks))).tolist()
        self.alpha_0 = torch.full_like(self.alpha_0, crossing(strengths, of_standard, of_robust))

    def _remember(self, missing: list[tuple[int, int]], like: Tensor) -> Iterator[None]:
        for block, strength in missing:
            if self._remembered is not None:
                self._remembered.make(block, strength, like)
            yield

    def _turns(self, places: Tensor) -> Tensor:
        """The next strength for each of these examples, (N,)."""
        visits = zip((places // BLOCK).tolist(), self.seen[places].tolist(), strict=True)
        return torch.tensor([turn(len(self.objective.strengths), *visit) for visit in visits], dtype=torch.int64)

    def _aimed(self, x: Tensor, y: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Images attacked at one strength each, and which strength that is, (N,); it counts as seen."""
        places = places_of("policy", self.examples, indices)
        which = self._turns(places)
        (more,) = everywhere(torch.zeros_like(self.seen).index_fill_(0, places, 1))
        self.seen = self.seen + more
        if self._remembered is not None:
            return self._remembered(places, which, x), which.to(x.device)
        which = which.to(x.device)
        return attacked(self.attack, self._composite[0], x, y, self.objective.strengths, which), which

    def _adaptive(self, model: Classifier, x: Tensor, y: Tensor, rng: Streams) -> Tensor:
        """PGD through everything; the examples that have taken all their steps leave the batch."""
        objective, z = self.objective, x.clone()
        threat = objective.threat
        steps = rng.split("steps").integers(objective.steps).to(x.device) + 1
        length = 2.5 * threat.eps / steps if objective.step_size is None else objective.step_size + 0 * steps
        length = length.to(x)
        with evaluating(model):
            for step in range(objective.steps):
                on = steps > step
                if not bool(on.any()):
                    break
                _, grad, _ = input_gradient(cross_entropy, model, z[on], y[on])
                ahead = per_example(length[on], x[on]) * threat.ascent(grad, z[on])
                z[on] = threat.project(z[on] + ahead, x[on])
        return z


def turn(kinds: int, block: int, visit: int) -> int:
    """The number of the strength at which the examples of a block are attacked on this visit, counted from 0.

    Neighbours share it, so that a whole block is needed in the same epoch. As many blocks as there are strengths use
    all of them in an epoch, and each block does in as many epochs. From one epoch to the next the order is random: with
    rising strengths, a policy that recognises images would be misled, since the right choices for an image on past
    visits predict the wrong one for the next.
    """
    return _order(kinds, visit // kinds)[(block + visit) % kinds]


@functools.cache
def _order(kinds: int, cycle: int) -> list[int]:
    order: list[int] = permutation(kinds, 0, f"strengths in cycle {cycle}").tolist()
    return order


@dataclass(frozen=True)
class _Batch:
    """A batch in place of the whole data set."""

    x: Tensor
    y: Tensor
    index: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def batch(self, rows: Tensor | slice) -> tuple[Tensor, Tensor]:
        return self.x[rows].detach(), self.y[rows]
