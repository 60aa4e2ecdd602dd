"""The audit: every condition in turn, each with eval mode and random numbers of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor

from holdfast.attacks.usual import usual
from holdfast.errors import DataError, HoldfastError, ModelError
from holdfast.losses import cross_entropy
from holdfast.models.logits import with_logits
from holdfast.modes import evaluating
from holdfast.rng import derive
from holdfast.threat.linf import Linf
from holdfast.trust.aims import other_losses, parts
from holdfast.trust.attacks import Case, black_box, convergence, larger_eps, unbounded
from holdfast.trust.confidence import confidence
from holdfast.trust.outputs import answers_clean_images, batch_dependence, probabilities, randomness
from holdfast.trust.passes import input_range, scaling, train_mode
from holdfast.trust.slopes import gradients
from holdfast.trust.transfer import Sources, transfer
from holdfast.trust.verdict import Verdict, meaningless
from holdfast.types import Ascent, Classifier, Loss, Threat


def before(
    model: Classifier,
    x: Tensor,
    y: Tensor,
    *,
    loss: Loss = cross_entropy,
    seed: int = 0,
    at_chance: bool | None = None,
) -> Iterator[Verdict]:
    """Conditions that need no attack: chance level, images, scaling, modes, randomness, batch, outputs, gradients.

    Args:
        model: images in [0, 1] to logits; a module is put in eval mode for the time.
        x: images, (N, ...), of the device and type that the model takes.
        y: labels, (N,).
        loss: the loss that attacks climb.
        seed: of the random numbers that the model may draw.
        at_chance: whether the network is at chance level, if more images than these have told; such a network is asked
            nothing that presupposes a working one. None to decide it on these, with a verdict of its own.
    """
    model = with_logits(model, x[:1])
    _check(model, x, y, seed)
    if at_chance is None:
        verdict = _run_condition(model, partial(answers_clean_images, model, x, y), seed)
        at_chance = verdict.level == "fail"
        yield verdict
    yield input_range(x)
    yield _run_condition(model, partial(scaling, model, x), seed)
    random = _run_condition(model, partial(randomness, model, x), seed)
    yield _run_condition(model, partial(train_mode, model, x), seed)
    if at_chance:
        yield from (meaningless(flag, "model") for flag in ("randomness", "batch", "probabilities", "gradients"))
        return
    yield random
    if random.level == "fail":
        why = "the answers are random, so that one more reason to differ cannot be seen"
        yield Verdict(flag="batch", level="not tested", finding=why, evidence="model")
    else:
        yield _run_condition(model, partial(batch_dependence, model, x), seed)
    yield _run_condition(model, partial(probabilities, model, x), seed)
    yield _run_condition(model, partial(gradients, model, x, y, loss), seed)


def audit(
    model: Classifier,
    x: Tensor,
    y: Tensor,
    *,
    threat: Threat | None = None,
    attack: Ascent | None = None,
    surrogate: Classifier | Sources | None = None,
    images: Tensor | None = None,
    seed: int = 0,
    at_chance: bool | None = None,
) -> Iterator[Verdict]:
    """Every condition under which an attack's result cannot be trusted, one verdict each, in the order of `FLAGS`.

    Args:
        model: images in [0, 1] to logits; a module is put in eval mode for the time.
        x: images, (N, ...), of the device and type that the model takes; 64 are enough to see gross trouble.
        y: labels, (N,).
        threat: what the adversary may do; None for the attack's or, without an attack, 8/255 in linf.
        attack: the white-box attack whose number is in question; None for APGD on the cross entropy with 50 steps (in
            l1 100 steps and 5 restarts).
        surrogate: another network to transfer attacks from, or several by name; None for a student of the model.
        images: what that student learns from; None for `x`.
        seed: of everything random.
        at_chance: whether the network is at chance level, if more images than these have told, see `before`.

    Yields:
        A verdict as soon as it is known.
    """
    if attack is None:
        attack = usual(Linf(8 / 255) if threat is None else threat)
    elif threat is not None and threat != attack.threat:
        raise ValueError(f"expected a threat or an attack that has one; got {threat} and an attack in {attack.threat}")
    model = with_logits(model, x[:1])
    case = Case(model, x, y, attack, seed)
    for verdict in before(model, x, y, loss=attack.loss, seed=seed, at_chance=at_chance):
        at_chance = at_chance or (verdict.flag == "chance" and verdict.level == "fail")
        yield verdict
    conditions: dict[str, Callable[[Case], Verdict]] = {
        "confidence": confidence,
        "eps": larger_eps,
        "unbounded": unbounded,
        "convergence": convergence,
        "losses": other_losses,
        "parts": parts,
        "black-box": black_box,
        "transfer": partial(transfer, surrogate=surrogate, images=images),
    }
    for flag, condition in conditions.items():
        yield meaningless(flag, "attacks") if at_chance else _attacked(flag, partial(condition, case), case)


def _attacked(flag: str, condition: Callable[[], Verdict], case: Case) -> Verdict:
    try:
        return _run_condition(case.model, condition, case.seed)
    except (
        HoldfastError,
        ValueError,
    ) as error:  # no gradient, images out of range, an unknown norm
        why = f"the attack cannot run: {error}"
        return Verdict(flag=flag, level="not tested", finding=why, evidence="attacks")


def _run_condition(model: Classifier, condition: Callable[[], Verdict], seed: int) -> Verdict:
    with evaluating(model), own_randomness(seed):
        return condition()


@contextmanager
def own_randomness(seed: int) -> Iterator[None]:
    """Random numbers for models that draw from the global generators, which are left as they were."""
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(derive(seed, "audit"))
        if torch.cuda.is_available():
            torch.cuda.manual_seed_all(derive(seed, "audit"))
        yield


def _check(model: Classifier, x: Tensor, y: Tensor, seed: int) -> None:
    if not x.is_floating_point() or not len(x) or len(x) != len(y):
        raise DataError(
            f"audit: expected images of a float type and a label for each; got {x.dtype}, {len(x)} images and "
            f"{len(y)} labels"
        )
    with evaluating(model), own_randomness(seed), torch.no_grad():
        logits = model(x)
    if logits.dim() != 2 or len(logits) != len(x) or logits.shape[1] <= int(y.max()):
        expected = f"({len(x)}, at least {int(y.max()) + 1})"
        raise ModelError(f"audit: expected logits of shape {expected}; got {tuple(logits.shape)}")
    if bad := int((~logits.isfinite()).any(1).sum()):
        raise ModelError(
            f"audit: expected finite logits; those of {bad} of {len(x)} examples are not finite: check the weights for "
            "NaN, and divisions and logarithms in the network"
        )
