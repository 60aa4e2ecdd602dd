"""The training loop: a generator of plain records that can stop at any step and go on to the same bits.

Everything random in a step is a function of (seed, epoch, example) or (seed, step), and the learning rate is a function
of the step, so the state to save is weights, optimizer, what an objective remembers and a few numbers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.errors import RecipeError
from holdfast.hierarchy import with_hierarchy
from holdfast.models.logits import bare
from holdfast.objectives.threat_warmup import has_growing_threat, warmup_share
from holdfast.objectives.weight_penalty import with_l1
from holdfast.optim.schedules import multiplier
from holdfast.recipe.schema import Recipe
from holdfast.results.labels import epoch_label
from holdfast.rng import Streams
from holdfast.runs.code import TrustedCode, resolved
from holdfast.runs.directory import Run
from holdfast.runs.initial import start_from
from holdfast.runs.networks import find_bases, new_model
from holdfast.runs.splits import Splits
from holdfast.runs.witnesses import held_out_of, with_witnesses
from holdfast.training.batches import Batches
from holdfast.training.checkpoint import TrainingFiles, load_state, state_content, weights_content
from holdfast.training.collapse import CollapseWatch, remedy
from holdfast.training.composites import fit_composite
from holdfast.training.cost import Cost, now, standard_step
from holdfast.training.fabric import launch, seeded, set_up
from holdfast.training.freezing import Frozen
from holdfast.training.memory import without_smaller_batch
from holdfast.training.records import Epoch, Preparation, Step, cut, line
from holdfast.training.running_mean import RunningMean
from holdfast.training.running_objective import RunningObjective
from holdfast.training.selection import Judge
from holdfast.training.state import check_optimizer, check_progress, of_this_recipe
from holdfast.training.terms import Tally, require_finite
from holdfast.types import Terms

SAVE_SECONDS = 60.0
"""State is saved at the end of epochs, when training stops, and at least this often."""


def fit(
    recipe: Recipe, splits: Splits, run: Run, *, device: torch.device | None = None, trust: TrustedCode = False,
    network: nn.Module | None = None,
) -> Iterator[Preparation | Step | Epoch]:  # fmt: skip
    """Train, or go on training, in a run's directory.

    Closing the generator between two records saves the state there; a kill goes back to the state saved last: of the
    last epoch or at most a second before it. Either way the weights end up the same to the bit. A network with nothing
    to train is saved as it is, without a record; the transformation of a composite is fitted first where the recipe
    asks for it.

    Args:
        recipe: what to do.
        splits: its images, from `holdfast.runs.prepare`.
        run: where; claimed by the caller.
        device: instead of the recipe's accelerator.
        trust: which factories that the recipe or files of other runs name may be called.
        network: one to train instead of the recipe's; its weights files do not say how to build it.

    Yields:
        A `Step` after every step and an `Epoch` after every epoch; of objectives that make something before an epoch,
        and of a composite whose transformation is fitted, a `Preparation` after every piece.

    Raises:
        TrainingError: when the loss is not finite, with step and batch, or a batch does not fit into memory; the last
            good state is kept.
    """
    loop = _Loop(recipe, splits, run, device, trust=trust, network=network)
    if not any(weight.requires_grad for weight in loop.raw.parameters()):
        if loop.witnesses:
            raise RecipeError(f"{recipe.name}: train.objective: align: expected a network with weights to train")
        yield from loop.keep()
        return
    try:
        while loop.at_epoch_end or not loop.done:
            if loop.at_epoch_end:
                yield loop.finish_epoch()
                continue
            with loop.fixed_batch_size():
                if not loop.prepared:
                    yield from loop.prepare()
                step = loop.advance()
            yield step
            if loop.files.seconds_since_flush > SAVE_SECONDS:
                loop.save()
    except GeneratorExit:
        loop.save()
        raise
    finally:
        loop.files.flush()


class _Loop:
    """The moving parts of `fit`."""

    def __init__(
        self, recipe: Recipe, splits: Splits, run: Run, device: torch.device | None = None, *,
        trust: TrustedCode = False, network: nn.Module | None = None,
    ) -> None:  # fmt: skip
        recipe = resolved(recipe, trust=trust)
        train = recipe.train
        self.recipe, self.splits, self.run = recipe, splits, run
        self.bases = find_bases(recipe, splits, run, trust=trust)
        self.given = network is not None
        self.raw = new_model(recipe, splits, self.bases or None, trust=trust) if network is None else network
        assert splits.train is not None, "data without training images are refused before"
        self.frozen = Frozen(self.raw, train.freeze)
        initial = None
        if train.init_from is not None and not run.state.exists():  # else it goes on from a state of its own
            initial = start_from(self.raw, train.init_from, seed=recipe.seed, run=run, fresh=self.frozen.head)
        self.fabric = launch(train.fabric, device)
        self.model, self.optimizer = set_up(self.fabric, self.raw, train.optimizer(self.raw.parameters()))
        objective, self.witnesses = with_witnesses(recipe, splits, run, trust=trust)
        if self.fabric.is_global_zero:
            others = {"init_from": initial, "bases": self.bases, "witnesses": self.witnesses}
            run.record(**{name: fact for name, fact in others.items() if fact})
        held_out, facts = held_out_of(recipe, splits, run, trust=trust)
        if facts and self.fabric.is_global_zero:
            run.record(held_out=facts)
        objective = with_hierarchy(objective, splits.hierarchy, recipe.name)
        self.objective = RunningObjective(objective, self.raw, len(splits.classes), splits.train, self.fabric.device)
        self.optimizer.param_groups[0]["params"].extend(self.objective.hooks.parameters())
        self.objective.hooks.meet(splits.train, splits.validation, augmented=bool(recipe.data.augment))
        self.mean = RunningMean(self.raw, train.ema) if train.ema is not None else None
        selection = with_hierarchy(train.selection, splits.hierarchy, recipe.name)
        judged_on = None if held_out is None else held_out.to(self.fabric.device)
        self.judge = Judge(selection, splits.validation, recipe.seed, judged_on)
        advice = remedy(adversarial=has_growing_threat(train.objective), warmup=train.threat_warmup)
        self.watch = CollapseWatch(splits.train, advice)
        self.batches = Batches(recipe, splits.train, len(splits.classes))
        self.step, self.finished, self.prepared, self.tally = 0, 0, False, Tally()
        self.standard_seconds: float | None = None
        self.files = TrainingFiles(run)
        self.lines = self._resume()

    @property
    def per_epoch(self) -> int:
        return len(self.batches)

    @property
    def done(self) -> bool:
        return self.step >= self.recipe.train.epochs * self.per_epoch or self.judge.impatient

    @property
    def at_epoch_end(self) -> bool:
        """Whether all steps of an epoch are done and its end is not."""
        return self.step == (self.finished + 1) * self.per_epoch

    @property
    def place(self) -> str:
        """The step under way, for people."""
        return f"{self.recipe.name}: step {self.step + 1} (epoch {self.step // self.per_epoch + 1})"

    def fixed_batch_size(self) -> AbstractContextManager[None]:
        """Stop where a step runs out of memory, see `without_smaller_batch`."""
        return without_smaller_batch(self.place, self.recipe.train.batch_size, saved=self.files.have(self.run.state))

    def prepare(self) -> Iterator[Preparation]:
        """What the objective makes before the epoch, or the rest of it."""
        epoch, batch = divmod(self.step, self.per_epoch)
        like, started = torch.empty(0, device=self.fabric.device), time.monotonic()
        for done, total in self.objective.hooks.prepare(self.batches.ahead(epoch, batch), like):
            seconds = time.monotonic() - started  # a part of the epoch and of what its steps cost
            self.tally.seconds += seconds
            self.tally.step_seconds += seconds
            yield Preparation(done, total, epoch + 1)
            started = time.monotonic()
        self.prepared = True

    def advance(self) -> Step:
        """One step: a batch, as often as the objective wants it."""
        started = time.monotonic()
        epoch, batch = divmod(self.step, self.per_epoch)
        share = slice(self.fabric.global_rank, None, self.fabric.world_size)
        x, y, index = self.batches(epoch, batch, self.fabric.device, share)
        if self.standard_seconds is None:
            self.standard_seconds = self._standard_step(x, y)
        working = now(self.fabric.device)
        for replay in range(self.objective.replays):
            terms = self._update(x, y, index, epoch, replay)
        self.step += 1
        self.tally.add(terms, len(index))
        self.tally.step_seconds += now(self.fabric.device) - working
        self.tally.seconds += time.monotonic() - started
        return Step(self.step, self.recipe.train.epochs * self.per_epoch, epoch + 1, float(terms.total.detach()))

    def _update(self, x: Tensor, y: Tensor, index: Tensor, epoch: int, replay: int) -> Terms:
        """One step of the optimizer."""
        train, seed = self.recipe.train, self.recipe.seed
        lr = train.optimizer.lr * multiplier(train.schedule, train.warmup, self.step, self.per_epoch, train.epochs)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        if train.threat_warmup:  # a function of the step, so that nothing needs saving
            share = warmup_share(train.threat_warmup, self.step, train.epochs * self.per_epoch)
            self.objective.give_budget_share(share)
        self.frozen.train(self.model)
        again = f", replay {replay}" if replay else ""
        with self._own_randomness(again):
            rng = Streams(seed, f"objective in epoch {epoch}{again}", index)
            terms = with_l1(self.objective(self.model, x, y, rng=rng), self.raw.parameters(), train.l1)
        require_finite(terms.total, self.place, index, self.files.kept)
        self.optimizer.zero_grad()
        self.fabric.backward(terms.total)
        if train.clip is not None:
            self.fabric.clip_gradients(self.model, self.optimizer, max_norm=train.clip, error_if_nonfinite=False)
        self.optimizer.step()
        if self.mean is not None:
            self.mean.update(self.raw)
        return terms

    def _standard_step(self, x: Tensor, y: Tensor) -> float:
        """What a standard step costs here and now, for comparison."""
        self.frozen.train(self.model)
        with self._own_randomness(", standard"):
            return standard_step(self.model, self.recipe.train.optimizer, x, y)

    def finish_epoch(self) -> Epoch:
        """Judge, write metrics and weights, and last the state that makes them count."""
        started = time.monotonic()
        number = self.step // self.per_epoch
        for network in [self.raw, *([self.mean.model] if self.mean is not None else [])]:
            self.objective.hooks.settle(network, self._images())
        weights = self._weights()
        judged = self.raw if self.mean is None else self.mean.model
        verdict, collapse = self.judge(judged, number, self.recipe.train.epochs), self.watch(judged)
        means, seconds = self.tally.means(), self.tally.seconds + time.monotonic() - started
        lr = float(self.optimizer.param_groups[0]["lr"])
        alarm = collapse or self.objective.hooks.alarm()
        scores, best, halved = verdict.scores, verdict.best, verdict.halved
        epoch = Epoch(number, self.step, lr, means, scores, best, seconds, self._cost(), alarm, halved)
        if self.fabric.is_global_zero:
            self.lines.append(line(epoch))
            self._keep_weights(self._labels(number, best=verdict.best), weights, number)
            self.files[self.run.metrics] = b"".join(self.lines)
        self.finished, self.prepared, self.tally = number, False, Tally()
        self._keep_state()
        self.files.flush(at_once=self.done)
        return epoch

    def _images(self) -> Iterator[Tensor]:
        """All training images as they are, in batches."""
        train, size = self.splits.train, self.recipe.train.batch_size
        assert train is not None, "data without training images are refused before"
        like = next(self.raw.parameters())
        for start in range(0, len(train), size):
            yield train.batch(slice(start, start + size))[0].to(like)

    def _labels(self, number: int, *, best: bool) -> list[str]:
        """What the weights of an epoch are kept as."""
        every = self.recipe.train.keep_every
        between = every is not None and number % every == 0 and number < self.recipe.train.epochs
        return [*(["best"] if best else []), "last", *([epoch_label(number)] if between else [])]

    def keep(self) -> Iterator[Preparation]:
        """Save the weights that there are, once, after the fit that a composite may ask for."""
        if self.run.weights("last").exists():
            return
        recipe, facts = yield from fit_composite(self.recipe, self.splits, self.raw, self.fabric.device)
        if self.fabric.is_global_zero:
            self.run.record(**facts)
            self._keep_weights(["last"], self._weights(), 0, recipe)
            self.files.flush()

    def _keep_weights(
        self, labels: list[str], weights: dict[str, Tensor], epoch: int, recipe: Recipe | None = None
    ) -> None:
        content = weights_content(
            recipe or self.recipe, self.splits, weights, epoch, self.bases, kept=self.files.kept, given=self.given,
            origins=self._origins(),
        )  # fmt: skip
        for label in labels:
            self.files[self.run.weights(label)] = content

    def _origins(self) -> dict[str, Any]:
        """What the weights come from besides the images: other runs with their hashes."""
        info = self.run.info()
        return {name: info[name] for name in ("init_from", "witnesses", "held_out") if name in info}

    def _cost(self) -> Cost | None:
        """Of the epoch's steps; None where none was taken since the process began, only the epoch's end."""
        if self.standard_seconds is None:
            return None
        passes = getattr(self.recipe.train.objective, "passes", None)
        return Cost.of(self.tally.step_seconds / self.per_epoch, self.standard_seconds, passes)

    def save(self) -> None:
        """Write the state, and what waits to be written."""
        self._keep_state()
        self.files.flush()

    def _keep_state(self) -> None:
        if not self.fabric.is_global_zero:
            return
        state = {
            "model": self.raw.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "mean": self.mean.model.state_dict() if self.mean is not None else None,
            "objective": self.objective.state(),
            "judge": self.judge.state(),
            "collapsed_epochs": self.watch.epochs,
            "step": self.step,
            "finished": self.finished,
            **asdict(self.tally),
        }
        self.files[self.run.state] = state_content(state)

    def _resume(self) -> list[bytes]:
        """Go on from the state there is; returns the lines of the epochs done."""
        state = load_state(self.run.state)
        if state is None:
            return cut(self.run.metrics, 0)
        with of_this_recipe(self.run.state):
            check_progress(state, self.per_epoch)
            check_optimizer(state["optimizer"], self.optimizer.param_groups, self.recipe.train.optimizer)
            self.raw.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            if self.mean is not None:
                self.mean.model.load_state_dict(state["mean"])
            self.objective.resume(state["objective"])
            self.judge.resume(state["judge"])
        self.step, self.finished, self.tally = state["step"], state["finished"], Tally.of(state)
        self.watch.epochs = state.get("collapsed_epochs", 0)
        return cut(self.run.metrics, self.finished)

    def _own_randomness(self, purpose: str = "") -> AbstractContextManager[None]:
        """Of this step, for layers such as dropout."""
        return seeded(self.fabric.device, self.recipe.seed, f"step {self.step}{purpose}")

    def _weights(self) -> dict[str, Tensor]:
        model = self.raw if self.mean is None else self.mean.model
        return {name: tensor.detach().cpu() for name, tensor in bare(model).state_dict().items()}
