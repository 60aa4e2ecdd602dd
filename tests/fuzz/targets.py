"""Every file that holdfast reads back: valid examples, where it lies, and the public function that reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import formats, readers, seeds
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
    "npz": Target("a.npz", seeds.npz, readers.npz, (formats.npz_edited, formats.zip_edited)),
    "npy": Target("a.npy", seeds.npy, readers.npy, (formats.npy_edited,), seeds.npy_labels),
    "npy labels": Target("labels.npy", seeds.npy_label_files, readers.npy, (formats.npy_edited,), seeds.npy_images),
    "stored corruption": Target("a.npy", seeds.npy, readers.stored_corruption, (formats.npy_edited,), seeds.npy_labels),
    "idx": Target("m/train-images-idx3-ubyte", seeds.idx, readers.idx, (formats.idx_edited,), seeds.idx_others),
    "idx labels": Target(
        "m/t10k-labels-idx1-ubyte", seeds.idx_labels, readers.idx, (formats.idx_edited,), seeds.idx_others
    ),
    "idx gz": Target(
        "m/train-images-idx3-ubyte.gz", seeds.idx_gz, readers.idx, (formats.gzip_edited,), seeds.idx_others
    ),
    "emnist": Target("emnist/gzip.zip", seeds.emnist, readers.emnist, (formats.zip_edited,)),
    "cifar batch": Target("test_batch.bin", seeds.cifar_batch, readers.cifar10, (), seeds.cifar_others),
    "cifar tar": Target(
        "cifar-100-binary.tar.gz", seeds.cifar_tar, readers.cifar100, (formats.tar_edited, formats.gzip_edited)
    ),
    "mat": Target("svhn/train_32x32.mat", seeds.mat, readers.svhn, (formats.mat_edited,), seeds.mat_other),
    "png": Target("data/cat/1.png", seeds.png, readers.folder, (formats.png_edited, formats.picture_redrawn)),
    "image": Target("data/cat/1.jpg", seeds.images, readers.folder, (formats.picture_redrawn,)),
    "recipe on a page": Target("run/recipe.yaml", seeds.stored_recipes, readers.page, YAML, seeds.evaluated_run),
    "run.json": Target("run/run.json", seeds.run_json, readers.facts, JSON, seeds.evaluated_run),
    "run.json on a page": Target("run/run.json", seeds.run_json, readers.page, JSON, seeds.evaluated_run),
    "foreign network": Target("run/run.json", seeds.foreign, readers.foreign, JSON),
    "metrics": Target(
        "run/metrics.jsonl", seeds.metrics, readers.metrics, (json_lines_edited, respelled), seeds.evaluated_run
    ),
    "metrics on a page": Target(
        "run/metrics.jsonl", seeds.metrics, readers.page, (json_lines_edited,), seeds.evaluated_run
    ),
    "ledger": Target("run/ledger/a.parquet", seeds.parts, readers.ledger, (formats.parquet_edited,)),
    "ledger on a page": Target(
        "run/ledger/a.parquet", seeds.parts, readers.page, (formats.parquet_edited,), seeds.evaluated_run
    ),
    "gallery": Target("run/gallery/0.npz", seeds.galleries, readers.gallery, (formats.npz_edited, formats.zip_edited)),
    "gallery on a page": Target(
        "run/gallery/0.npz", seeds.galleries, readers.page, (formats.npz_edited,), seeds.evaluated_run
    ),
    "points": Target("run/points/a.npy", seeds.points, readers.points, (formats.npy_edited,)),
    "answer": Target("run/answers/a.json", seeds.answers, readers.answers, JSON),
    "answer on a page": Target("run/answers/a.json", seeds.answers, readers.page, JSON, seeds.evaluated_run),
    "rows of an answer": Target(
        seeds.ROWS, seeds.answer_rows, readers.answers, (formats.parquet_edited,), seeds.answer_key
    ),
    "rows of an answer on a page": Target(
        seeds.ROWS, seeds.answer_rows, readers.page, (formats.parquet_edited,), seeds.answered_run
    ),
    "verdicts": Target("run/verdicts/best-model.json", seeds.verdicts, readers.verdicts, JSON),
    "verdicts on a page": Target(
        "run/verdicts/best-model.json", seeds.verdicts, readers.page, JSON, seeds.evaluated_run
    ),
    "checksums": Target("checksums.txt", seeds.checksums, readers.checked_file, TEXT, seeds.checked_file),
    "journal": Target("search.journal", seeds.journals, readers.journal, (json_lines_edited, respelled)),
    "corruption facts": Target("out/corruptions.json", seeds.corruption_facts, readers.corruption_facts, JSON),
}
"""By name; `python -m tests.fuzz` lists and runs them."""
