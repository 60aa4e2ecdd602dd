"""The training loop: a generator of plain records that can stop at any step and go on to the same bits.

Everything random in a step is a function of (seed, epoch, example) or (seed, step), and the learning rate is a function
of the step, so the state to save is weights, optimizer, what an objective remembers and a few numbers.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.errors import CheckpointError, RecipeError, TrainingError
from holdfast.objectives.threat_warmup import has_growing_threat, warmup_share, with_budget_share
from holdfast.objectives.weight_penalty import with_l1
from holdfast.optim.schedules import multiplier
from holdfast.recipe import Recipe
from holdfast.rng import Streams, derive
from holdfast.runs import Run, Splits, TrustedCode, find_bases, new_model, start_from
from holdfast.training.batches import Batches
from holdfast.training.checkpoint import TrainingFiles, load_state, state_content, weights_content
from holdfast.training.collapse import CollapseWatch, remedy
from holdfast.training.composites import fit_composite
from holdfast.training.cost import Cost, now, standard_step
from holdfast.training.memory import without_smaller_batch
from holdfast.training.records import Epoch, Preparation, Step, cut, line
from holdfast.training.running_mean import RunningMean
from holdfast.training.selection import Judge
from holdfast.training.state import check_optimizer, check_progress
from holdfast.types import Alarmed, Curious, Preparing, Stateful, Terms

SAVE_SECONDS = 60.0
"""State is saved at the end of epochs, when training stops, and at least this often."""


def fit(
    recipe: Recipe, splits: Splits, run: Run, *, device: torch.device | None = None, trust: TrustedCode = False
) -> Iterator[Preparation | Step | Epoch]:
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

    Yields:
        A `Step` after every step and an `Epoch` after every epoch; of objectives that make something before an epoch,
        and of a composite whose transformation is fitted, a `Preparation` after every piece.

    Raises:
        TrainingError: when the loss is not finite, with step and batch, or a batch does not fit into memory; the last
            good state is kept.
    """
    loop = _Loop(recipe, splits, run, device, trust=trust)
    if not any(weight.requires_grad for weight in loop.raw.parameters()):
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
        self,
        recipe: Recipe,
        splits: Splits,
        run: Run,
        device: torch.device | None = None,
        *,
        trust: TrustedCode = False,
    ) -> None:
        from lightning_fabric import Fabric

        self.bases = find_bases(recipe, splits, run, trust=trust)
        self.raw = new_model(recipe, splits, self.bases or None, trust=trust)
        initial = self._start(recipe, run)
        assert splits.train is not None, "new_model refuses data without training images"
        self.recipe, self.splits, self.run, self.data = recipe, splits, run, splits.train
        train = recipe.train
        try:
            self.fabric = Fabric(**{**asdict(train.fabric), **_placed(device)})
        except (ValueError, RuntimeError) as error:  # its own errors are of these kinds
            raise RecipeError(f"train.fabric: {str(error).splitlines()[0]}") from None
        self.fabric.launch()
        self.fabric.barrier()  # the first process has made the directory ready
        if initial is not None and self.fabric.is_global_zero:
            run.record(init_from=initial)
        if self.bases and self.fabric.is_global_zero:
            run.record(bases=self.bases)
        model, self.optimizer = self.fabric.setup(self.raw, train.optimizer(self.raw.parameters()))
        for method in ("features", "stages", "moments", "decide"):
            if inspect.ismethod(getattr(self.raw, method, None)):  # layers of foreign networks have such names, too
                model.mark_forward_method(method)
        # Fabric refuses gradients that do not go through it, of which objectives take many on the way to their loss;
        # the loss itself does go through it.
        model._register_backward_hook = _as_it_is
        self.model = model
        self.objective: Any = train.objective
        if isinstance(train.objective, Stateful):
            self.objective = train.objective.started(self.raw, len(splits.classes), self.data.index)
        if isinstance(self.objective, nn.Module):
            self.objective.to(self.fabric.device)
        if isinstance(self.objective, Curious):
            self.objective.meet(self.data, splits.validation, augmented=bool(recipe.data.augment))
        self.mean = RunningMean(self.raw, train.ema) if train.ema is not None else None
        self.judge = Judge(train.selection, splits.validation, recipe.seed)
        self.watch = CollapseWatch(
            self.data, remedy(adversarial=has_growing_threat(train.objective), warmup=train.threat_warmup)
        )
        self.batches = Batches(recipe, self.data, len(splits.classes))
        self.replays = int(getattr(train.objective, "replays", 1))
        self.step, self.finished, self.seconds, self.step_seconds = 0, 0, 0.0, 0.0
        self.standard_seconds: float | None = None
        self.prepared = False
        self.sums: dict[str, float] = {}
        self.files = TrainingFiles(run.state)
        self.lines = self._resume()

    def _start(self, recipe: Recipe, run: Run) -> dict[str, Any] | None:
        """Weights of another run, unless this one has a state of its own to go on from; facts about them."""
        if recipe.train.init_from is None or run.state.exists():
            return None
        return start_from(self.raw, recipe.train.init_from, seed=recipe.seed, run=run)

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

    def fixed_batch_size(self) -> AbstractContextManager[None]:
        """Stop where a step runs out of memory, see `without_smaller_batch`."""
        where = f"{self.recipe.name}: step {self.step + 1} (epoch {self.step // self.per_epoch + 1})"
        saved = self.run.state in self.files or self.run.state.exists()
        return without_smaller_batch(where, self.recipe.train.batch_size, saved=saved)

    def prepare(self) -> Iterator[Preparation]:
        """What the objective makes before the epoch, or the rest of it."""
        if isinstance(self.objective, Preparing):
            epoch, batch = divmod(self.step, self.per_epoch)
            like, started = torch.empty(0, device=self.fabric.device), time.monotonic()
            for done, total in self.objective.prepare(self.batches.ahead(epoch, batch), like):
                self._count(time.monotonic() - started)
                yield Preparation(done, total, epoch + 1)
                started = time.monotonic()
        self.prepared = True

    def _count(self, seconds: float) -> None:
        """Preparing is a part of the epoch and of what its steps cost."""
        self.seconds += seconds
        self.step_seconds += seconds

    def advance(self) -> Step:
        """One step: a batch, as often as the objective wants it."""
        started = time.monotonic()
        epoch, batch = divmod(self.step, self.per_epoch)
        share = slice(self.fabric.global_rank, None, self.fabric.world_size)
        x, y, index = self.batches(epoch, batch, self.fabric.device, share)
        if self.standard_seconds is None:
            self.standard_seconds = self._standard_step(x, y)
        working = now(self.fabric.device)
        for replay in range(self.replays):
            terms = self._update(x, y, index, epoch, replay)
        self.step += 1
        for name, value in {"total": terms.total, **terms.parts}.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(value.detach()) * len(index)
        self.sums["examples"] = self.sums.get("examples", 0.0) + len(index)
        self.step_seconds += now(self.fabric.device) - working
        self.seconds += time.monotonic() - started
        return Step(self.step, self.recipe.train.epochs * self.per_epoch, epoch + 1, float(terms.total.detach()))

    def _update(self, x: Tensor, y: Tensor, index: Tensor, epoch: int, replay: int) -> Terms:
        """One step of the optimizer."""
        train, seed = self.recipe.train, self.recipe.seed
        lr = train.optimizer.lr * multiplier(train.schedule, train.warmup, self.step, self.per_epoch, train.epochs)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self._grow_threat()
        self.model.train()
        again = f", replay {replay}" if replay else ""
        with self._own_randomness(again):
            rng = Streams(seed, f"objective in epoch {epoch}{again}", index)
            terms = with_l1(self.objective(self.model, x, y, rng=rng), self.raw.parameters(), train.l1)
        loss = float(terms.total.detach())
        if not math.isfinite(loss):
            raise TrainingError(
                f"{self.recipe.name}: step {self.step + 1} (epoch {epoch + 1}): expected a finite loss, got {loss}; "
                f"batch of examples {_some(index)}; {self._kept()}"
            )
        self.optimizer.zero_grad()
        self.fabric.backward(terms.total)
        if train.clip is not None:
            self.fabric.clip_gradients(self.model, self.optimizer, max_norm=train.clip, error_if_nonfinite=False)
        self.optimizer.step()
        if self.mean is not None:
            self.mean.update(self.raw)
        return terms

    def _grow_threat(self) -> None:
        """Give the adversary its budget of this step; a function of the step, so that nothing needs saving."""
        train = self.recipe.train
        if train.threat_warmup == 0:
            return
        share = warmup_share(train.threat_warmup, self.step, train.epochs * self.per_epoch)
        objective = with_budget_share(train.objective, share)
        if isinstance(self.objective, nn.Module):
            self.objective.objective = objective  # type: ignore[assignment]
        else:
            self.objective = objective

    def _standard_step(self, x: Tensor, y: Tensor) -> float:
        """What a standard step costs here and now, for comparison."""
        self.model.train()
        with self._own_randomness(", standard"):
            return standard_step(self.model, self.recipe.train.optimizer, x, y)

    def _kept(self) -> str:
        last = self.run.weights("last")
        kept = last in self.files or last.exists()
        return f"the last good weights are in {self.run.path}" if kept else "no weights were saved before"

    def finish_epoch(self) -> Epoch:
        """Judge, write metrics and weights, and last the state that makes them count."""
        started = time.monotonic()
        number = self.step // self.per_epoch
        weights = self._weights()
        judged = self.raw if self.mean is None else self.mean.model
        verdict, collapse = self.judge(judged, number, self.recipe.train.epochs), self.watch(judged)
        examples = self.sums.pop("examples")
        means = {name: total / examples for name, total in self.sums.items()}
        self.seconds += time.monotonic() - started
        lr = float(self.optimizer.param_groups[0]["lr"])
        alarm = collapse or (self.objective.alarm() if isinstance(self.objective, Alarmed) else None)
        scores, best = verdict.scores, verdict.best
        epoch = Epoch(number, self.step, lr, means, scores, best, self.seconds, self._cost(), alarm, verdict.halved)
        if self.fabric.is_global_zero:
            self.lines.append(line(epoch))
            self._keep_weights(["best", "last"] if verdict.best else ["last"], weights, number)
            self.files[self.run.metrics] = b"".join(self.lines)
        self.sums, self.seconds, self.step_seconds = {}, 0.0, 0.0
        self.finished, self.prepared = number, False
        self._keep_state()
        self.files.flush(at_once=self.done)
        return epoch

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
        try:
            content = weights_content(recipe or self.recipe, self.splits, weights, epoch, self.bases)
        except TrainingError as error:
            raise TrainingError(f"{error}; {self._kept()}") from None
        for label in labels:
            self.files[self.run.weights(label)] = content

    def _cost(self) -> Cost | None:
        """Of the epoch's steps; None where none was taken since the process began, only the epoch's end."""
        if self.standard_seconds is None:
            return None
        passes = getattr(self.recipe.train.objective, "passes", None)
        return Cost.of(self.step_seconds / self.per_epoch, self.standard_seconds, passes)

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
            "objective": self.objective.state_dict() if isinstance(self.objective, nn.Module) else None,
            "judge": self.judge.state(),
            "collapsed_epochs": self.watch.epochs,
            "step": self.step,
            "finished": self.finished,
            "sums": self.sums,
            "seconds": self.seconds,
            "step_seconds": self.step_seconds,
        }
        self.files[self.run.state] = state_content(state)

    def _resume(self) -> list[bytes]:
        """Go on from the state there is; returns the lines of the epochs done."""
        state = load_state(self.run.state)
        if state is None:
            return cut(self.run.metrics, 0)
        try:
            check_progress(state, self.per_epoch)
            optimizer = self.recipe.train.optimizer
            check_optimizer(state["optimizer"], self.optimizer.param_groups, optimizer)
            self.raw.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            if self.mean is not None:
                self.mean.model.load_state_dict(state["mean"])
            if isinstance(self.objective, nn.Module):
                self.objective.load_state_dict(state["objective"])
            self.judge.resume(state["judge"])
        except (RuntimeError, ValueError, LookupError, TypeError, AttributeError, AssertionError) as error:
            line = str(error).partition("\n")[0] or type(error).__name__
            raise CheckpointError(
                f"{self.run.state}: expected training state of this recipe ({line}); start over with --fresh"
            ) from None
        self.step, self.finished = state["step"], state["finished"]
        self.sums, self.seconds = state["sums"], state["seconds"]
        self.step_seconds = state.get("step_seconds", 0.0)
        self.watch.epochs = state.get("collapsed_epochs", 0)
        return cut(self.run.metrics, self.finished)

    @contextmanager
    def _own_randomness(self, purpose: str = "") -> Iterator[None]:
        """Seed torch's global generators by the step, for layers such as dropout, and give them back as they were."""
        device = self.fabric.device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.default_generator.manual_seed(derive(self.recipe.seed, f"step {self.step}{purpose}"))
            if device.type == "cuda":
                torch.cuda.manual_seed(derive(self.recipe.seed, f"step {self.step}{purpose}"))
            yield

    def _weights(self) -> dict[str, Tensor]:
        model = self.raw if self.mean is None else self.mean.model
        return {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}


def _placed(device: torch.device | None) -> dict[str, Any]:
    """Fabric's arguments for one device; empty for the device of the recipe."""
    if device is None:
        return {}
    return {"accelerator": device.type, "devices": 1 if device.index is None else [device.index]}


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor


def _some(index: Tensor) -> str:
    shown = ", ".join(str(int(i)) for i in index[:8])
    return f"{shown}, ... ({len(index)})" if len(index) > 8 else shown
