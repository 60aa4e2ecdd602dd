"""The work of `holdfast search`: in this process, or in several that share a study."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.device import device_of
from holdfast.cli.screen import Stop, between_steps
from holdfast.cli.system_errors import in_words
from holdfast.errors import HoldfastError, TrainingError
from holdfast.show.progress import Bar

if TYPE_CHECKING:
    from holdfast.search.plan import Plan

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
SAFE_PATH = "PYTHONSAFEPATH"


@dataclass(frozen=True)
class Errand:
    """What a worker needs to know, in a form that another process can read."""

    recipe: Path
    overrides: tuple[str, ...]
    out: Path
    storage: str | None
    root: Path | None
    device: str | None = None
    trust: frozenset[str] = frozenset()

    def records(self) -> Iterator[Any]:
        """The worker's records."""
        from holdfast.search.plan import load_plan
        from holdfast.search.worker import work

        device = None if self.device is None else device_of(self.device)
        plan = load_plan(self.recipe, self.overrides)
        return work(plan, self.out, storage=self.storage, root=self.root, device=device, trust=self.trust)


def alone(errand: Errand, plan: Plan, study: Any, total: int, workers: int, *, quiet: bool) -> None:
    """Work in this process."""
    from holdfast.search.trial import Ended
    from holdfast.search.worker import ended

    done, records = ended(study), errand.records()
    with Bar(quiet=quiet).stage(f"search {plan.name}", "trials") as show, between_steps() as stop:
        try:
            for record in records:
                done += isinstance(record, Ended)
                show(done, total, "" if isinstance(record, Ended) else f"trial {record.trial}  {record.note}")
                if stop.requested:
                    raise KeyboardInterrupt
        finally:
            records.close()  # type: ignore[attr-defined]


def together(errand: Errand, plan: Plan, study: Any, total: int, workers: int, *, quiet: bool) -> None:
    """Let other processes work, and end with them."""
    import multiprocessing

    from holdfast.search.worker import ended

    context = multiprocessing.get_context("spawn")  # a fork would share threads and devices that cannot be shared
    with _one_thread():
        problems = context.SimpleQueue()
        work = {"target": _worker, "args": (errand, os.getpid(), problems), "daemon": True}
        crew = [context.Process(**work) for _ in range(workers)]  # type: ignore[arg-type]
        for member in crew:
            member.start()
    try:
        with Bar(quiet=quiet).stage(f"search {plan.name}", "trials") as show:
            while any(member.is_alive() for member in crew):
                if not problems.empty():
                    raise HoldfastError(problems.get())
                show(ended(study), total, f"{workers} workers")
                time.sleep(0.1)
    finally:
        for member in crew:
            member.terminate()  # does nothing to those that have ended
        for member in crew:
            member.join()
    if not problems.empty():
        raise HoldfastError(problems.get())
    if ended(study) < total and any(member.exitcode for member in crew):
        codes = ", ".join(str(member.exitcode) for member in crew)
        raise TrainingError(
            f"{plan.name}: all workers ended (exit codes {codes}) with {ended(study)} of {total} trials done; "
            "repeat the same command to resume"
        )


@contextmanager
def _one_thread() -> Iterator[None]:
    """For processes started meanwhile: one thread each, and Ctrl-C is for the one that started them."""
    before = {name: os.environ.get(name) for name in (*THREADS, SAFE_PATH)}
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(dict.fromkeys(THREADS, "1"))
    os.environ[SAFE_PATH] = "1"  # nor does Python put the working directory first in their path
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _worker(errand: Errand, parent: int, problems: Any) -> None:
    """Work in a process of its own until all is done, a stop is requested, or the parent has ended."""
    import torch

    torch.set_num_threads(1)
    stop = Stop()
    signal.signal(signal.SIGTERM, stop)
    records = errand.records()
    try:
        for _ in records:
            if stop.requested or os.getppid() != parent:
                break
    except HoldfastError as error:
        problems.put(str(error))
    except OSError as error:
        problems.put(in_words(error))
    finally:
        records.close()  # type: ignore[attr-defined]
