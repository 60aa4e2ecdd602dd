"""Every file that holdfast reads back: valid examples, where it lies, and the public function that reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import formats, numeric_formats, readers, run_seeds, seeds
from tests.fuzz.mutations import MOST_BYTES, damaged, json_edited, json_lines_edited, respelled

Mutation = Callable[[bytes, object, Sequence[bytes]], bytes]


@dataclass(frozen=True)
class Target:
    """A reader and the file that it reads.

    Args:
        place: path of the file in a directory of its own.
        seeds: makes valid files.
        read: reads the file in that directory, as a command would.
        mutations: of which one is drawn for each execution; `damaged` is always among them.
        prepare: writes what must lie beside the file.
    """

    place: str
    seeds: Callable[[], Sequence[bytes]]
    read: Callable[[Path], object]
    mutations: Sequence[Mutation] = ()
    prepare: Callable[[Path], object] = seeds.nothing

    def mutant(self, draw, pool, fresh):
        """A changed file: of one of the seeds, or of one that has had a new outcome."""
        content = draw.choice(pool if draw.random() < 0.5 else fresh)
        try:
            changed = bytes(draw.choice((damaged, *self.mutations, *self.mutations))(content, draw, fresh))
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001  what is damaged already may not be of its format any more
            return damaged(content, draw, fresh)
        return changed if len(changed) <= MOST_BYTES else damaged(content, draw, fresh)


JSON, TEXT = (json_edited, respelled), (respelled,)
YAML = (formats.yaml_edited, respelled)

TARGETS = {
    "recipe": Target("recipe.yaml", seeds.recipes, readers.recipe, YAML),
    "search recipe": Target("plan.yaml", seeds.plans, readers.plan, YAML),
    "recipe of a run": Target("run/recipe.yaml", seeds.stored_recipes, readers.stored_recipe, YAML),
    "safetensors": Target("a.safetensors", seeds.tensors, readers.weights, (formats.safetensors_edited,)),
    "weights with a card": Target("a.safetensors", seeds.cards, readers.model, (formats.safetensors_edited,)),
    "weights of PyTorch": Target(
        "a.pt", seeds.torch_weights, readers.torch_weights, (formats.torch_edited, formats.zip_edited)
    ),
    "training state": Target("run/state.pt", seeds.states, readers.state, (formats.torch_edited, formats.zip_edited)),
    "resumed training": Target(
        "run/state.pt", seeds.states, readers.resumed, (formats.torch_edited,), seeds.trained_run
    ),
    "npz": Target("a.npz", seeds.npz, readers.npz, (numeric_formats.npz_edited, formats.zip_edited)),
    "npy": Target("a.npy", seeds.npy, readers.npy, (numeric_formats.npy_edited,), seeds.npy_labels),
    "npy labels": Target(
        "labels.npy", seeds.npy_label_files, readers.npy, (numeric_formats.npy_edited,), seeds.npy_images
    ),
    "stored corruption": Target(
        "a.npy", seeds.npy, readers.stored_corruption, (numeric_formats.npy_edited,), seeds.npy_labels
    ),
    "idx": Target("m/train-images-idx3-ubyte", seeds.idx, readers.idx, (numeric_formats.idx_edited,), seeds.idx_others),
    "idx labels": Target(
        "m/t10k-labels-idx1-ubyte", seeds.idx_labels, readers.idx, (numeric_formats.idx_edited,), seeds.idx_others
    ),
    "idx gz": Target(
        "m/train-images-idx3-ubyte.gz", seeds.idx_gz, readers.idx, (formats.gzip_edited,), seeds.idx_others
    ),
    "emnist": Target("emnist/gzip.zip", seeds.emnist, readers.emnist, (formats.zip_edited,)),
    "cifar batch": Target("test_batch.bin", seeds.cifar_batch, readers.cifar10, (), seeds.cifar_others),
    "cifar tar": Target(
        "cifar-100-binary.tar.gz", seeds.cifar_tar, readers.cifar100, (formats.tar_edited, formats.gzip_edited)
    ),
    "mat": Target("svhn/train_32x32.mat", seeds.mat, readers.svhn, (numeric_formats.mat_edited,), seeds.mat_other),
    "png": Target(
        "data/cat/1.png", seeds.png, readers.folder, (numeric_formats.png_edited, numeric_formats.picture_redrawn)
    ),
    "image": Target("data/cat/1.jpg", seeds.images, readers.folder, (numeric_formats.picture_redrawn,)),
    "wav": Target("data/cat/1.wav", seeds.wav, readers.wav_folder, (numeric_formats.wav_edited,)),
    "waveforms": Target("a.npz", seeds.waveforms, readers.waveforms, (numeric_formats.npz_edited, formats.zip_edited)),
    "recipe on a page": Target("run/recipe.yaml", seeds.stored_recipes, readers.page, YAML, run_seeds.evaluated_run),
    "run.json": Target("run/run.json", run_seeds.run_json, readers.facts, JSON, run_seeds.evaluated_run),
    "run.json on a page": Target("run/run.json", run_seeds.run_json, readers.page, JSON, run_seeds.evaluated_run),
    "foreign network": Target("run/run.json", run_seeds.foreign, readers.foreign, JSON),
    "metrics": Target(
        "run/metrics.jsonl", run_seeds.metrics, readers.metrics, (json_lines_edited, respelled), run_seeds.evaluated_run
    ),
    "metrics on a page": Target(
        "run/metrics.jsonl", run_seeds.metrics, readers.page, (json_lines_edited,), run_seeds.evaluated_run
    ),
    "ledger": Target("run/ledger/a.parquet", run_seeds.parts, readers.ledger, (numeric_formats.parquet_edited,)),
    "ledger on a page": Target(
        "run/ledger/a.parquet",
        run_seeds.parts,
        readers.page,
        (numeric_formats.parquet_edited,),
        run_seeds.evaluated_run,
    ),
    "ledger compared": Target(
        "run/ledger/a.parquet", run_seeds.parts, readers.compared, (numeric_formats.parquet_edited,), run_seeds.two_runs
    ),
    "ledger of corruptions": Target(
        run_seeds.CORRUPTED,
        run_seeds.corrupted_parts,
        readers.corruption_errors,
        (numeric_formats.parquet_edited,),
        run_seeds.two_corrupted_runs,
    ),
    "ledger of a selection": Target(
        "run/ledger/a.parquet", run_seeds.parts, readers.selected, (numeric_formats.parquet_edited,), run_seeds.two_runs
    ),
    "gallery": Target(
        "run/gallery/0.npz", run_seeds.galleries, readers.gallery, (numeric_formats.npz_edited, formats.zip_edited)
    ),
    "gallery on a page": Target(
        "run/gallery/0.npz", run_seeds.galleries, readers.page, (numeric_formats.npz_edited,), run_seeds.evaluated_run
    ),
    "points": Target("run/points/a.npy", run_seeds.points, readers.points, (numeric_formats.npy_edited,)),
    "answer": Target("run/answers/a.json", run_seeds.answers, readers.answers, JSON),
    "answer on a page": Target("run/answers/a.json", run_seeds.answers, readers.page, JSON, run_seeds.evaluated_run),
    "rows of an answer": Target(
        run_seeds.ROWS, run_seeds.answer_rows, readers.answers, (numeric_formats.parquet_edited,), run_seeds.answer_key
    ),
    "rows of an answer on a page": Target(
        run_seeds.ROWS, run_seeds.answer_rows, readers.page, (numeric_formats.parquet_edited,), run_seeds.answered_run
    ),
    "verdicts": Target("run/verdicts/best-model.json", run_seeds.verdicts, readers.verdicts, JSON),
    "verdicts on a page": Target(
        "run/verdicts/best-model.json", run_seeds.verdicts, readers.page, JSON, run_seeds.evaluated_run
    ),
    "checksums": Target("checksums.txt", run_seeds.checksums, readers.checked_file, TEXT, run_seeds.checked_file),
    "journal": Target("search.journal", run_seeds.journals, readers.journal, (json_lines_edited, respelled)),
    "corruption facts": Target("out/corruptions.json", run_seeds.corruption_facts, readers.corruption_facts, JSON),
}
"""By name; `python -m tests.fuzz` lists and runs them."""
