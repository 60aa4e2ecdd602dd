"""What checksums, limits and flushes cost: reading what runs leave, and a short run.

`OMP_NUM_THREADS=1 python benchmarks/safety.py`. The bare ways read the same bytes without checksum, limit or guard, and
write files without checksum and without flushing directories; both ways take turns in one process.
"""

from __future__ import annotations

import io
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import numpy as np
import polars as pl
import torch
from safetensors.torch import load

from holdfast import files, results
from holdfast.data.npz import read_npz
from holdfast.files import write_checked
from holdfast.models import MODELS, build, load_weights, to_safetensors
from holdfast.results import SCHEMA, Ledger
from holdfast.training.checkpoint import load_state

PARTS, ROWS, ROUNDS, RUNS = 100, 500, 15, int(sys.argv[1]) if len(sys.argv) > 1 else 5


def ledger(root: Path) -> Ledger:
    """A ledger as 100 checks of 500 examples leave it."""
    one = Ledger(root / "ledger")
    generator = np.random.default_rng(0)
    for part in range(PARTS):
        size = range(ROWS)
        columns = {name: pl.Series([None] * ROWS, dtype=kind) for name, kind in SCHEMA.items()}
        columns |= {name: pl.Series(["some text"] * ROWS) for name in ("run", "weights", "method", "params", "norm")}
        columns |= {"check": pl.Series([f"pgd linf eps={part}/255"] * ROWS), "example": pl.Series(size)}
        columns |= {name: pl.Series(generator.normal(size=ROWS)) for name in ("loss", "distance", "seconds")}
        columns |= {"correct": pl.Series(generator.random(ROWS) < 0.5), "label": pl.Series(size) % 10}
        one.append(f"best-{part:04d}-0", pl.DataFrame(columns))
    return one


def readings(root: Path) -> Iterator[tuple[str, Callable[[], object], Callable[[], object]]]:
    """What is read, as holdfast reads it and bare."""
    one = ledger(root)

    def bare_ledger() -> object:
        with patch.object(results, "_read_part", pl.read_parquet):
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
    keys = ("optimizer", "mean", "objective", "judge", "step", "finished", "sums", "seconds")
    torch.save({"model": model.state_dict(), **dict.fromkeys(keys)}, buffer)
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
    """Write files as one would without this: to a temporary name, flushed and renamed."""

    def write_together(contents: Mapping[Path, bytes]) -> None:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.tmp")
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)

    with ExitStack() as stack:
        stack.enter_context(patch.object(files, "write_together", write_together))
        stack.enter_context(patch.object(files, "_flush_directory", lambda path: None))
        yield


def run(recipe: str, out: Path) -> float:
    """Seconds of a run."""
    from holdfast.cli import main

    started = time.perf_counter()
    silence = io.StringIO()
    arguments = ["holdfast", "run", recipe, "--out", str(out)]
    with patch.object(sys, "argv", arguments), redirect_stdout(silence), redirect_stderr(silence):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"the run ended with {end.code}") from None
    return time.perf_counter() - started


def show(name: str, safe: list[float], bare: list[float]) -> None:
    """Medians and their ratio."""
    one, other = statistics.median(safe), statistics.median(bare)
    print(f"| {name} | {1000 * one:,.1f} | {1000 * other:,.1f} | {one / other:.3f} |", flush=True)


def main() -> None:
    """Print a table."""
    torch.set_num_threads(1)
    print("| | holdfast, ms | bare, ms | ratio |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as directory:
        for name, safe, bare in readings(Path(directory)):
            taken: tuple[list[float], list[float]] = ([], [])
            for _ in range(ROUNDS):
                for work, seconds in zip((safe, bare), taken, strict=True):
                    started = time.perf_counter()
                    work()
                    seconds.append(time.perf_counter() - started)
            show(name, *taken)
        taken = ([], [])
        for number in range(RUNS):
            taken[0].append(run("recipes/digits.yaml", Path(directory) / f"safe-{number}"))
            with bare_files():
                taken[1].append(run("recipes/digits.yaml", Path(directory) / f"bare-{number}"))
        show("`holdfast run recipes/digits.yaml`", *taken)


if __name__ == "__main__":
    main()
