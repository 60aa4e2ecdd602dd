"""Where trials are written down: a journal file beside them, or a database for many machines."""

from __future__ import annotations

import json
import shutil
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner
from optuna.storages import BaseStorage, JournalStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.storages.journal import JournalFileBackend
from optuna.study import Study
from optuna.trial import Trial

from holdfast.errors import HoldfastError, LedgerError, RecipeError
from holdfast.files.regular import refuse_links
from holdfast.json_text import parse_json
from holdfast.search.claims import Lock
from holdfast.search.plan import Plan
from holdfast.search.sampler import sampler

JOURNAL = "search.journal"
BEAT = 30
"""Seconds between two signs of life of a trial in a database."""
GRACE = 180
"""Seconds without a heartbeat after which such a trial is lost and its values are tried again."""
IDENTITY = "plan"


def open_study(plan: Plan, directory: Path, storage: str | None = None) -> Study:
    """The study of a plan, made if it is not there.

    Args:
        plan: what to search for.
        directory: of the search; holds the journal.
        storage: address of a database; None for the journal.

    Raises:
        RecipeError: the study there is about another recipe, or the database cannot be used.
        LedgerError: the journal is damaged.
    """
    refuse_links(directory, error=LedgerError)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with _in_one_line(directory, storage), warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study = optuna.create_study(
            storage=_storage(directory, storage),
            study_name=plan.name,
            load_if_exists=True,
            directions=["maximize" if goal.maximize else "minimize" for goal in plan.settings.objective],
            sampler=sampler(plan),
            pruner=pruner(plan),
        )
        recorded, now = study.user_attrs.get(IDENTITY), json.dumps(plan.identity(), sort_keys=True)
        if recorded is None:
            study.set_user_attr(IDENTITY, now)
    if recorded not in (None, now):
        with _in_one_line(directory, storage):
            paths = _differences(parse_json(recorded), json.loads(now))
        raise RecipeError(
            f"{directory}: holds a search of another recipe (differs in {', '.join(paths[:3])}); "
            "choose another name or --out, or start over with --fresh"
        )
    return study


def forget_study(plan: Plan, directory: Path, storage: str | None = None) -> None:
    """Delete all trials with their runs."""
    if storage is not None:
        with _in_one_line(directory, storage):
            database = _storage(directory, storage)
            if plan.name in optuna.get_all_study_names(database):
                optuna.delete_study(study_name=plan.name, storage=database)
    refuse_links(directory, error=LedgerError)
    for name in ("trials", "locks", "pareto"):
        shutil.rmtree(directory / name, ignore_errors=True)
    for name in (JOURNAL, f"{JOURNAL}.lock", "best.yaml", "search.html"):
        (directory / name).unlink(missing_ok=True)


def pruner(plan: Plan) -> BasePruner:
    """When trials are given up."""
    pruning = plan.settings.pruning
    if pruning.method == "median":
        return MedianPruner(n_startup_trials=pruning.startup, n_warmup_steps=pruning.warmup)
    if pruning.method == "hyperband":
        epochs = plan.probe().train.epochs
        return HyperbandPruner(min_resource=min(max(1, pruning.warmup), epochs), max_resource=epochs)
    return NopPruner()


@contextmanager
def beating(trial: Trial) -> Iterator[None]:
    """Give signs of life while a trial runs, where the storage takes them."""
    storage: Any = trial.storage
    interval = getattr(storage, "get_heartbeat_interval", lambda: None)()
    if interval is None:
        yield
        return
    over = threading.Event()

    def beat() -> None:
        while not over.wait(interval):
            storage.record_heartbeat(trial._trial_id)

    storage.record_heartbeat(trial._trial_id)
    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _storage(directory: Path, address: str | None) -> BaseStorage:
    if address is not None:
        retry = RetryHeartbeatStaleTrialCallback()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return RDBStorage(
                address, heartbeat_interval=BEAT, grace_period=GRACE, heartbeat_stale_trial_callback=retry
            )
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / JOURNAL
    lock: Any = Lock(file.with_name(f"{JOURNAL}.lock"))
    _cut_torn_line(file, lock)
    return JournalStorage(JournalFileBackend(str(file), lock_obj=lock))


def _cut_torn_line(file: Path, lock: Lock) -> None:
    """Drop half a line that a kill left at the end, which would spoil the next one."""
    if not file.exists():
        return
    lock.acquire()
    try:
        content = file.read_bytes()
        if content and not content.endswith(b"\n"):
            with file.open("rb+") as journal:
                journal.truncate(content.rfind(b"\n") + 1)
    finally:
        lock.release()


@contextmanager
def _in_one_line(directory: Path, storage: str | None) -> Iterator[None]:
    """What goes wrong with a storage is the address's fault, or the file's."""
    try:
        yield
    except (HoldfastError, OSError):
        raise
    except Exception as error:  # a database's driver may raise anything
        lines = str(error).strip().splitlines()
        line = lines[0] if lines else type(error).__name__
        if storage is None:
            raise LedgerError(
                f"{directory / JOURNAL}: expected a journal of a search ({line}); start over with --fresh"
            ) from error
        raise RecipeError(f"--storage: expected the address of a database that Optuna can use ({line})") from error


def _differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Paths in which two identities differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = dict.fromkeys([*old, *new])
        below = [_differences(old.get(key), new.get(key), f"{path}.{key}".lstrip(".")) for key in keys]
        return [change.removeprefix("recipe.") for changes in below for change in changes]
    return [] if old == new else [path]
