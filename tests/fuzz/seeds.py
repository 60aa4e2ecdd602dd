"""Small valid files of every format that holdfast reads, and what lies beside them."""

import functools
import gzip
import io
import tempfile
import wave
import zipfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from holdfast.data.cifar import HUNDRED, TEN
from tests.data.layouts import idx as idx_file
from tests.data.layouts import pixels, records
from tests.fuzz.formats import tar_of

ROOT = Path(__file__).parents[2]
KEY = {
    "question": "thickness",
    "settings": {"alpha": 0.0, "beta": 0.75, "eps": 1.0},
    "weights": "best",
    "weights_hash": "ab12",
    "seed": 0,
    "examples": 3,
    "images": "0",
    "block": 4,
}


def nothing(_):
    """No other files are needed."""


def recipes():
    small = (file.read_bytes() for file in sorted((ROOT / "recipes").glob("*.yaml")))
    return [text for text in small if len(text) < 6000]


def plans():
    from tests.search.tiny import TEXT

    return [(ROOT / "recipes/search/digits.yaml").read_bytes(), TEXT.encode()]


def stored_recipes():
    from holdfast.recipe import Recipe, load_recipes, to_yaml
    from tests.training.tiny import recipe

    digits = load_recipes(ROOT / "recipes/digits.yaml")
    return [to_yaml(one, Recipe).encode() for one in (recipe(), *digits[1:])]


def tensors():
    from holdfast.models import to_safetensors

    kinds = (torch.float32, torch.float16, torch.int64, torch.bool, torch.bfloat16)
    state = {f"layer.{kind}": torch.ones(2, 3, dtype=kind) for kind in kinds}
    return [to_safetensors({"a": torch.zeros(2, 3)}, {"b": "c"}), to_safetensors(state, {})]


@functools.cache
def trained():
    """A tiny finished run: the content of its files."""
    from tests.training.tiny import recipe, train

    with tempfile.TemporaryDirectory() as place:
        train(recipe(), Path(place) / "run")
        return {file.name: file.read_bytes() for file in (Path(place) / "run").iterdir()}


def cards():
    return [trained()["best.safetensors"]]


def states():
    return [trained()["state.pt"]]


def trained_run(place):
    for name in ("metrics.jsonl", "best.safetensors", "last.safetensors"):
        (place / "run").mkdir(exist_ok=True)
        (place / "run" / name).write_bytes(trained()[name])


def torch_weights():
    state = {"a.weight": torch.ones(2, 3), "a.bias": torch.zeros(2), "b": torch.ones(2, dtype=torch.float16).long()}
    contents = []
    for content, zipped in (
        (state, True),
        (state, False),
        ({"state_dict": state, "epoch": 1, "best": [0.5, None]}, True),
    ):
        buffer = io.BytesIO()
        torch.save(content, buffer, _use_new_zipfile_serialization=zipped)
        contents.append(buffer.getvalue())
    return contents


def npz():
    x, y = pixels(6, 8, 8), np.arange(6) % 2
    arrays = {"x_train": x, "y_train": y, "x_test": x[:2], "y_test": y[:2], "class_names": np.array(["a", "b"])}
    colours = {"x_test": pixels(4, 8, 8, 3).astype(np.float32) / 255, "y_test": np.arange(4)}
    return [_npz(arrays, np.savez_compressed), _npz(arrays, np.savez), _npz(colours, np.savez)]


def _npz(arrays, write):
    buffer = io.BytesIO()
    write(buffer, **arrays)
    return buffer.getvalue()


def npy_of(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def npy():
    return [npy_of(pixels(10, 8, 8)), npy_of(pixels(10, 8, 8, 1)), npy_of(pixels(10, 8, 8).astype(np.float32) / 255)]


def npy_label_files():
    return [npy_of(np.tile(np.arange(2), 5)), npy_of(np.tile(np.arange(2, dtype=np.uint8), 5))]


def npy_labels(place):
    (place / "labels.npy").write_bytes(npy_label_files()[0])


def npy_images(place):
    (place / "a.npy").write_bytes(npy()[0])


def _idx_files(prefix=("train", "t10k")):
    x, y = pixels(4, 8, 8), np.arange(4, dtype=np.uint8) % 2
    parts = {}
    for stem in prefix:
        parts[f"{stem}-images-idx3-ubyte"], parts[f"{stem}-labels-idx1-ubyte"] = idx_file(x), idx_file(y)
    return parts


def idx():
    return [idx_file(pixels(4, 8, 8)), idx_file(pixels(4, 8, 8, seed=1))]


def idx_labels():
    return [idx_file(np.arange(4, dtype=np.uint8) % 2)]


def idx_gz():
    return [gzip.compress(content) for content in idx()]


def idx_others(place):
    (place / "m").mkdir()
    for name, content in _idx_files().items():
        (place / "m" / f"{name}.gz").write_bytes(gzip.compress(content))


def emnist():
    buffer, parts = io.BytesIO(), _idx_files(("emnist-mnist-train", "emnist-mnist-test"))
    x, y = np.tile(pixels(1, 4, 4), (10, 1, 1)), np.arange(10, dtype=np.uint8)
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in parts:
            archive.writestr(f"gzip/{name}.gz", gzip.compress(idx_file(x if "images" in name else y)))
    return [buffer.getvalue()]


def _cifar(count, labels):
    y = np.arange(count, dtype=np.uint8) % 10
    return records(np.zeros((count, 3, 32, 32), np.uint8), *([y] * labels))


def cifar_batch():
    return [_cifar(2, 1)]


def cifar_others(place):
    for name in (*TEN.train, *TEN.test):
        (place / name).write_bytes(_cifar(10, 1))


def cifar_tar():
    y = np.arange(100, dtype=np.uint8)
    content = records(np.zeros((100, 3, 32, 32), np.uint8), y // 5, y)
    return [
        tar_of(
            {
                f"{HUNDRED.folder}/{HUNDRED.train[0]}": content,
                f"{HUNDRED.folder}/{HUNDRED.test[0]}": content[: 2 * 3074],
            }
        )
    ]


def mat():
    from scipy.io import savemat

    contents = []
    for packed in (True, False):
        buffer = io.BytesIO()
        arrays = {"X": np.zeros((4, 4, 3, 10), np.uint8), "y": np.arange(1, 11, dtype=np.uint8)[:, None]}
        savemat(buffer, arrays, do_compression=packed)
        contents.append(buffer.getvalue())
    return contents


def mat_other(place):
    (place / "svhn").mkdir()
    (place / "svhn/test_32x32.mat").write_bytes(mat()[0])


def _picture(kind, mode="RGB"):
    buffer = io.BytesIO()
    Image.fromarray(pixels(8, 8, 3)).convert(mode).save(buffer, kind)
    return buffer.getvalue()


def png():
    return [_picture("PNG"), _picture("PNG", "P"), _picture("PNG", "L")]


def images():
    return [_picture(kind) for kind in ("JPEG", "BMP", "PPM", "TIFF", "WEBP")] + [_picture("TIFF", "L")]


def wav():
    contents = []
    for width, channels in ((1, 1), (2, 1), (3, 2), (4, 2)):
        buffer = io.BytesIO()
        with wave.open(buffer, "wb") as file:
            file.setparams((channels, width, 8000, 0, "NONE", ""))
            file.writeframes(pixels(6 * width * channels).tobytes())
        contents.append(buffer.getvalue())
    return contents


def waveforms():
    x, y = pixels(6, 16).view(np.int16), np.arange(6) % 2
    arrays = {"x_train": x, "y_train": y, "x_test": x[:2], "y_test": y[:2], "rate": np.array(8000)}
    arrays |= {"speaker_train": np.arange(6) // 3, "speaker_test": y[:2], "speakers": np.array(["a", "b"])}
    return [_npz(arrays, np.savez), _npz(arrays, np.savez_compressed)]
