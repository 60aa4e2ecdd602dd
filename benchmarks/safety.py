"""What checksums, limits and flushes cost: reading what runs leave, and a short run.

`OMP_NUM_THREADS=1 python benchmarks/safety.py [RUNS]`. The bare ways read the same bytes without checksum, limit or
guard, write files without checksum and without flushing directories, and take no locks; both ways take turns in one
process. Reading is timed by the processor. Runs differ more from one to the next than by what is measured here, so that
the time with files is taken by itself, flushes included, and the rest of a run is the same for both ways.
"""

from __future__ import annotations

import importlib
import io
import os
import pkgutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import numpy as np
import polars as pl
import torch
from safetensors.torch import load

from holdfast import files, results
from holdfast.data.npz import read_npz
from holdfast.earlier import with_access, with_traits
from holdfast.files import flushing, write_checked
from holdfast.models import MODELS, build, load_weights, to_safetensors
from holdfast.results import SCHEMA, Ledger
from holdfast.runs import Run
from holdfast.training.checkpoint import load_state

WORDS = {"method": "pgd", "params": "{}", "kind": "attack", "access": "gradients"}
RECIPE = "recipes/digits.yaml"
PARTS, ROWS, ROUNDS, RUNS = 100, 500, 15, int(sys.argv[1]) if len(sys.argv) > 1 else 5


def ledger(root: Path) -> Ledger:
    """A ledger as 100 checks of 500 examples leave it."""
    one = Ledger(root / "ledger")
    generator = np.random.default_rng(0)
    for part in range(PARTS):
        size = range(ROWS)
        columns = {name: pl.Series([None] * ROWS, dtype=kind) for name, kind in SCHEMA.items()}
        columns |= {name: pl.Series(["some text"] * ROWS) for name in ("run", "weights", "weights_hash", "norm")}
        columns |= {name: pl.Series([text] * ROWS) for name, text in WORDS.items()}
        columns |= {"check": pl.Series([f"pgd linf eps={part}/255"] * ROWS), "example": pl.Series(size)}
        columns |= {name: pl.Series(generator.normal(size=ROWS)) for name in ("loss", "distance", "seconds")}
        columns |= {"correct": pl.Series(generator.random(ROWS) < 0.5)}
        columns |= {name: pl.Series(size) % 10 for name in ("label", "prediction", "queries", "seed")}
        one.append(f"best-{part:04d}-0", pl.DataFrame(columns))
    return one


def readings(root: Path) -> Iterator[tuple[str, Callable[[], object], Callable[[], object]]]:
    """What is read, as holdfast reads it and bare."""
    one = ledger(root)

    def bare_ledger() -> object:
        with patch.object(results.ledger, "_read_part", lambda path: with_traits(with_access(pl.read_parquet(path)))):
            return one.read()

    yield f"ledger of {PARTS} parts, {ROWS} rows each", one.read, bare_ledger
    model = build(MODELS["resnet18"], (3, 32, 32), 10)
    weights, state = root / "best.safetensors", root / "state.pt"
    write_checked(weights, to_safetensors(model.state_dict(), {}))
    yield (
        f"weights of ResNet-18, {weights.stat().st_size / 1e6:.0f} MB, into the network",
        lambda: load_weights(model, weights),
        lambda: model.load_state_dict(load(weights.read_bytes())),
    )
    buffer = io.BytesIO()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    numbers = {"judge": {"best": 0.0, "stale": 0}, "step": 1, "finished": 1, "sums": {}, "seconds": 1.0}
    nothing = {"mean": None, "objective": None}
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), **numbers, **nothing}, buffer)
    write_checked(state, buffer.getvalue())
    yield (
        "training state of the same",
        lambda: load_state(state),
        lambda: torch.load(state, map_location="cpu", weights_only=True),
    )
    images = root / "images.npz"
    x, y = np.random.default_rng(0).integers(0, 256, (10_000, 32, 32, 3), dtype=np.uint8), np.arange(10_000) % 10
    np.savez(images, x_test=x, y_test=y)
    yield (
        "10,000 images of 32x32 in an npz file",
        lambda: read_npz(images, "images"),
        lambda: _bare_npz(images),
    )


def _bare_npz(path: Path) -> object:
    with np.load(path) as arrays:
        return torch.from_numpy(np.moveaxis(arrays["x_test"], 3, 1).copy()), torch.from_numpy(arrays["y_test"])


@contextmanager
def bare_files() -> Iterator[None]:
    """Read files as they are, and write them as one would without this: to a temporary name, flushed and renamed."""

    def write_together(contents: Mapping[Path, bytes]) -> None:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.tmp")
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)

    def from_parquet(content: bytes, *rest: object) -> pl.DataFrame:
        return pl.read_parquet(io.BytesIO(content))

    with ExitStack() as stack:
        replace(stack, results.ledger.from_parquet, from_parquet)
        replace(stack, files.write_together, write_together)
        replace(stack, flushing.flush_directory, lambda path: None)
        replace(stack, files.read_checked, lambda path, **_: path.read_bytes())
        stack.enter_context(patch.object(Run, "lock", lambda self: nullcontext()))
        yield


def replace(stack: ExitStack, call: Callable[..., object], other: Callable[..., object]) -> None:
    """Let every module of holdfast call something else."""
    for module in [module for name, module in sys.modules.items() if name.startswith("holdfast.")]:
        for name in [name for name, value in vars(module).items() if value is call]:
            stack.enter_context(patch.object(module, name, other))


TIMED = (
    (files, "write_together"), (files, "read_checked"), (files, "read_regular"), (files, "refuse_links"),
    (files, "remove_temporary"), (files, "is_missing"), (files, "missing_files"), (flushing, "flush_file"),
    (flushing, "flush_directory"),
)  # fmt: skip
"""What reads and writes files of runs, or looks after them."""


@dataclass
class Spent:
    """What runs took.

    Attributes:
        whole: seconds of each run.
        files: seconds with files, flushes included.
        flushes: how many there were.
    """

    whole: list[float] = field(default_factory=list)
    files: list[float] = field(default_factory=list)
    flushes: list[int] = field(default_factory=list)


@contextmanager
def measured(spent: Spent) -> Iterator[None]:
    """Note the time of a run, that with files, and how often it waits for the disk."""
    seconds, flushes, inside = [0.0], [0], [False]
    flush = os.fsync

    def counted(handle: int) -> None:
        flushes[0] += 1
        flush(handle)

    def timed(call: Callable[..., object]) -> Callable[..., object]:
        def timing(*arguments: object, **options: object) -> object:
            if inside[0]:
                return call(*arguments, **options)
            inside[0], started = True, time.perf_counter()
            try:
                return call(*arguments, **options)
            finally:
                inside[0] = False
                seconds[0] += time.perf_counter() - started

        return timing

    with ExitStack() as stack:
        stack.enter_context(patch.object(os, "fsync", counted))
        for module, name in TIMED:
            replace(stack, getattr(module, name), timed(getattr(module, name)))
        started = time.perf_counter()
        yield
        spent.whole.append(time.perf_counter() - started)
    spent.files.append(seconds[0])
    spent.flushes.append(flushes[0])


def import_everything() -> None:
    """Import all modules, so that none is first imported while something is replaced, and keeps that."""
    for info in pkgutil.walk_packages([str(Path(files.__path__[0]).parent)], "holdfast."):
        if not info.name.endswith("__main__"):
            importlib.import_module(info.name)


def holdfast(*argv: object) -> None:
    """A command, without what it prints."""
    from holdfast.cli import main

    silence = io.StringIO()
    with patch.object(sys, "argv", ["holdfast", *map(str, argv)]), redirect_stdout(silence), redirect_stderr(silence):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"{argv[0]} ended with {end.code}") from None


def show(name: str, safe: list[float], bare: list[float]) -> None:
    """Medians and their ratio."""
    one, other = statistics.median(safe), statistics.median(bare)
    print(f"| {name} | {1000 * one:,.1f} | {1000 * other:,.1f} | {one / other:.3f} |", flush=True)


def compare_runs(root: Path) -> None:
    """Both ways in turns, after one run that warms everything up."""
    holdfast("run", RECIPE, "--out", root / "warm")
    safe, bare = Spent(), Spent()
    for number in range(RUNS):
        with measured(safe):
            holdfast("run", RECIPE, "--out", root / f"safe-{number}")
        with bare_files(), measured(bare):
            holdfast("run", RECIPE, "--out", root / f"bare-{number}")
    one, other = (statistics.median(spent.files) for spent in (safe, bare))
    counts = [statistics.median(spent.flushes) for spent in (safe, bare)]
    whole = statistics.median(safe.whole) - one
    print(f"| files of `holdfast run {RECIPE}`, {counts[0]:.0f} and {counts[1]:.0f} flushes ", end="")
    print(f"| {1000 * one:,.1f} | {1000 * other:,.1f} | {one / other:.3f} |")
    print(f"| the whole run | {1000 * (whole + one):,.1f} | {1000 * (whole + other):,.1f} ", end="")
    print(f"| {(whole + one) / (whole + other):.4f} |", flush=True)


def compare_reports(root: Path) -> None:
    """What most commands do after all: read runs and show them."""
    safe, bare = [], []
    for _ in range(ROUNDS):
        for ways, seconds in ((nullcontext, safe), (bare_files, bare)):
            started = time.process_time()
            with ways():
                holdfast("report", root / "warm", "--out", root / "page.html")
            seconds.append(time.process_time() - started)
    show("`holdfast report` of its three runs", safe, bare)


def main() -> None:
    """Print a table."""
    import_everything()
    torch.set_num_threads(1)
    print("| | holdfast, ms | bare, ms | ratio |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as directory:
        for name, safe, bare in readings(Path(directory)):
            taken: tuple[list[float], list[float]] = ([], [])
            for _ in range(ROUNDS):
                for work, seconds in zip((safe, bare), taken, strict=True):
                    started = time.process_time()
                    work()
                    seconds.append(time.process_time() - started)
            show(name, *taken)
        compare_runs(Path(directory))
        compare_reports(Path(directory))


if __name__ == "__main__":
    main()
