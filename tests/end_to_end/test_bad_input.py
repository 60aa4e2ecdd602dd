"""Whatever is wrong with the input: one line on stderr that names the place and what was expected, and exit code 2."""

import io
import math
import pickle
import shutil
import struct

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save, save_file

from holdfast.data import Digits, write_npz
from holdfast.models import read_metadata
from holdfast.parquet import to_parquet
from holdfast.results import Ledger
from tests.end_to_end import foreign
from tests.end_to_end.command import good, holdfast, refused
from tests.tampering import put
from tests.training.tiny import TEXT

RUN = "runs/tiny/seed-0"
BEST = f"{RUN}/best.safetensors"
FACTORY = "python:tests.end_to_end.foreign:"


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A directory with a good recipe, its finished run, good data and good foreign weights."""
    path = tmp_path_factory.mktemp("template")
    (path / "good.yaml").write_text(TEXT + "checks: [clean, {gaussian_noise: 0.1}]\n")
    assert holdfast("run", "good.yaml", cwd=path).code == 0
    write_npz(Digits()(), path / "digits.npz")
    torch.save(foreign.network().state_dict(), path / "good.pt")
    save_file(foreign.network().state_dict(), path / "foreign.safetensors")
    return path


@pytest.fixture
def here(template, tmp_path):
    shutil.copytree(template, tmp_path / "here")
    return tmp_path / "here"


BASE = "data: digits\nmodel: mlp\n"
RECIPES = {
    "empty": ("", "expected a mapping with name, data, model"),
    "a list": ("- a\n- b\n", "expected a mapping with name, data, model, ...; got list"),
    "not YAML": (BASE + "train: {epochs: [}\n", "bad.yaml:3: expected YAML"),
    "a tab": ("data:\n\tsource: digits\n", "bad.yaml:2: expected YAML"),
    "a key twice": (BASE + "model: cnn\n", "bad.yaml:3: expected YAML; 'model' is given twice"),
    "unknown key": (BASE + "trian: {}\n", "bad.yaml:3: unknown name 'trian'; known: analyses, checks, "),
    "unknown key in a group": (BASE + "train:\n  epoch: 3\n", "bad.yaml:4: train.epoch: unknown name 'epoch'"),
    "unknown key in a method": (
        BASE + "checks:\n  - pgd: {threat: {linf: {epsilon: 0.1}}}\n",
        "bad.yaml:4: checks.0.pgd.threat.linf.epsilon: unknown",
    ),
    "unknown name": (
        "data: digits\nmodel: resnet19\n",
        "bad.yaml:2: model: unknown name 'resnet19'; known: adaptive_composite, ",
    ),
    "unknown data": ("data: digit\nmodel: mlp\n", "bad.yaml:1: data.source: unknown name 'digit'"),
    "wrong type": (BASE + "train: {epochs: many}\n", "bad.yaml:3: train.epochs: expected a valid integer; got 'many'"),
    "out of range": (BASE + "train: {batch_size: 0}\n", "bad.yaml:3: train: batch_size must be at least 1, got 0"),
    "negative budget": (BASE + "checks: [{fgsm: {linf: -0.1}}]\n", "bad.yaml:3: checks.0.fgsm.threat.linf: "),
    "not a number": (BASE + "train: {optimizer: {sgd: {lr: .nan}}}\n", "train.optimizer.sgd: lr must not be negative"),
    "impossible optimizer": (BASE + "train: {optimizer: {sgd: {momentum: 0}}}\n", "nesterov needs a positive momentum"),
    "robust selection without an attack": (
        BASE + "train: {selection: {metric: robust_accuracy}}\n",
        "train.selection: metric robust_accuracy needs an attack",
    ),
    "robust selection without validation": (
        BASE + "train: {selection: {metric: robust_accuracy, attack: {fgsm: {linf: 0.1}}}}\n",
        "needs data.validation > 0",
    ),
    "a bad fraction": (
        BASE + "checks: [{uniform_noise: 8/0}]\n",
        "checks.0.uniform_noise.eps: expected a number or a frac",
    ),
    "an empty sweep": (
        BASE + "checks: [{uniform_noise: {each: []}}]\n",
        "checks.0.uniform_noise.each: expected at least",
    ),
    "a sweep in training": (BASE + "train: {warmup: {each: [1, 2]}}\n", "bad.yaml:3: train.warmup: expected a number"),
    "a check twice": (BASE + "checks: [clean, clean]\n", "checks: expected each check once; got 'clean' 2 times"),
    "variants as a list": (BASE + "variants: [a]\n", "variants: expected names with what they change; got list"),
    "a bad variant": (
        BASE + "variants: {a: {model: {mlp: {hiden: [3]}}}}\n",
        "variants.a.model.mlp.hiden: unknown name",
    ),
    "a variant's name": (BASE + "variants: {../a: {}}\n", "name: letters, digits"),
    "bad seeds": (BASE + "seeds: [1, x]\n", "seeds: expected a list of different whole numbers; got [1, 'x']"),
    "a name that leaves the directory": (BASE + "name: ../../up\n", "name: letters, digits"),
    "no model": ("data: digits\n", "bad.yaml: model: expected a value; got nothing"),
    "no data": ("model: mlp\n", "bad.yaml: data: expected a value; got nothing"),
    "nested without end": (BASE + "train: &a [*a]\n", "bad.yaml: expected YAML; got values nested without end"),
    "a factory that is not there": (
        "data: digits\nmodel: {python: 'tests.end_to_end.foreign:nothing'}\n",
        "has no 'nothing'",
    ),
    "a factory that raises": (
        "data: digits\nmodel: {python: 'tests.end_to_end.foreign:raising'}\n",
        "model: KeyError: 'no such\\nthing'",
    ),
    "too much validation": (
        "data: {source: digits, validation: 0.9999}\nmodel: mlp\n",
        "validation share: 0.9999 takes all",
    ),
    "too large a subset": (
        "data: {source: digits, subset: 5000}\nmodel: mlp\n",
        "subset: expected between 1 and 1297 exa",
    ),
    "an image too small": (
        "data: digits\nmodel: {cnn: {kernel: 3, pool: 2, blocks: [[4], [4], [4], [4]]}}\n",
        "model: ",
    ),
    "a missing archive": ("data: {npz: nowhere.npz}\nmodel: mlp\n", "nowhere.npz: not found"),
    "an impossible device": (BASE + "train: {fabric: {accelerator: abacus}}\n", "train.fabric: "),
    "an impossible precision": (
        BASE + "train: {fabric: {precision: fine}}\n",
        "train.fabric: Precision 'fine' is invalid",
    ),
}


@pytest.mark.parametrize(("text", "says"), RECIPES.values(), ids=RECIPES)
def test_recipes(tmp_path, text, says):
    (tmp_path / "bad.yaml").write_text(text)
    line = refused("run", "bad.yaml", "--trust", cwd=tmp_path)
    assert says in line
    assert not list(tmp_path.parent.glob("up*"))


@pytest.mark.parametrize("verb", ["run", "train", "show"])
@pytest.mark.parametrize("kind", ["missing", "directory", "binary", "control characters"])
def test_recipe_files(tmp_path, verb, kind):
    file = tmp_path / "bad.yaml"
    if kind == "directory" and verb != "show":
        file.mkdir()
    elif kind == "binary":
        file.write_bytes(bytes(range(256)))
    elif kind == "control characters":
        file.write_bytes(b"data: \x00\x01")
    assert "bad.yaml: expected " in refused(verb, "bad.yaml", cwd=tmp_path)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("train.epochs", "--set: expected something like train.epochs=5"),
        ("train.epochs=[", "--set train.epochs: expected a YAML value"),
        ("train.epohcs=3", "train.epohcs: unknown name 'epohcs'"),
        ("checks.7=clean", "--set checks.7: expected a position below 2"),
        ("train.epochs=0", "train: epochs must be at least 1"),
        ("name=../x", "name: letters, digits"),
        ("train.epochs=7", f"{RUN}: holds a run of another recipe (differs in train.epochs)"),
        ("data.subset=30", f"{RUN}: holds a run of another recipe (differs in data.subset)"),
    ],
)
def test_overrides(here, override, says):
    assert says in refused("run", "good.yaml", "--set", override, cwd=here)


def arrays(**changes):
    """A small good archive with changes; None leaves an array out."""
    rng = np.random.default_rng(0)
    base = {
        "x_train": rng.integers(0, 255, (20, 8, 8), np.uint8), "y_train": np.arange(20) % 10,
        "x_test": rng.integers(0, 255, (10, 8, 8), np.uint8), "y_test": np.arange(10),
    }  # fmt: skip
    return {name: array for name, array in {**base, **changes}.items() if array is not None}


def images(**at):
    x = np.full((10, 8, 8), 0.5, np.float32)
    x[3, 2, 2] = at["value"]
    return x


ARCHIVES = {
    "NaN": (arrays(x_test=images(value=np.nan)), "x_test: expected float images in [0, 1], got nan at index 3"),
    "infinite": (arrays(x_test=images(value=np.inf)), "x_test: expected float images in [0, 1], got inf at index 3"),
    "out of range": (arrays(x_test=images(value=1.5)), "x_test: expected float images in [0, 1], got 1.5 at index 3"),
    "integers of another kind": (
        arrays(x_test=np.zeros((10, 8, 8), np.int32)),
        "expected uint8 or float images, got int32",
    ),
    "a flat array": (arrays(x_test=np.zeros((10, 64), np.uint8)), "x_test: expected images (N, H, W)"),
    "two sizes": (arrays(x_test=np.zeros((10, 9, 9), np.uint8)), "expected test images of shape (1, 8, 8)"),
    "no images": (
        arrays(x_test=np.zeros((0, 8, 8), np.uint8), y_test=np.zeros(0, np.int64)),
        "expected at least one image",
    ),
    "no test images": (arrays(x_test=None), "expected an array x_test, got "),
    "labels as text": (arrays(y_test=np.array(list("0123456789"))), "y_test: expected integer labels"),
    "fewer labels": (arrays(y_test=np.arange(9)), "y_test: expected one label for each of 10 images, got 9"),
    "a label below zero": (arrays(y_test=np.arange(10) - 1), "y_test: expected labels in 0..9, got -1 at index 0"),
    "a label without a name": (arrays(class_names=np.array(list("012345678"))), "expected labels in 0..8, got 9"),
    "a class without images": (
        arrays(y_train=np.arange(20) % 9),
        "expected examples of every class, got none of class 9",
    ),
    "pickled objects": (
        arrays(x_test=np.array([{}, []], object)),
        "x_test: expected an array; got pickled objects",
    ),
}


@pytest.mark.parametrize(("content", "says"), ARCHIVES.values(), ids=ARCHIVES)
def test_archives(here, content, says):
    np.savez(here / "bad.npz", **content)
    line = refused("evaluate", "--model", f"{FACTORY}network", "--data", "bad.npz", cwd=here)
    assert says in line
    assert "bad" in line


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "random", "a pickle"])
def test_archives_that_are_none(here, damage):
    content = (here / "digits.npz").read_bytes()
    contents = {"empty": b"", "truncated": content[: len(content) // 2], "random": b"\x01\x02" * 99}
    if damage != "missing":
        (here / "bad.npz").write_bytes(contents.get(damage, pickle.dumps({"x_test": 1})))
    line = refused("evaluate", "--model", f"{FACTORY}network", "--data", "bad.npz", cwd=here)
    assert "bad.npz" in line


def folder(path, name, size=(8, 8)):
    file = path / "photos" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.zeros((*size, 3), np.uint8)).save(file)
    return file


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("mixed sizes", "2.png: expected 8x8 as "),
        ("broken", "3.png: expected an image, cannot be read"),
        ("empty class", "empty: expected images of class 'empty', got none"),
        ("no classes", "photos: expected one directory of images per class, got none"),
    ],
)
def test_image_folders(here, kind, says):
    folder(here, "cat/1.png")
    if kind == "mixed sizes":
        folder(here, "dog/2.png", (9, 8))
    elif kind == "broken":
        folder(here, "cat/3.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\x00" * 30)
    elif kind == "empty class":
        (here / "photos" / "empty").mkdir()
    else:
        shutil.rmtree(here / "photos" / "cat")
    assert says in refused("evaluate", "--model", "mlp", "--weights", "mlp.pt", "--data", "photos", cwd=here)


def changed_byte(path):
    content = bytearray(path.read_bytes())
    content[-5] ^= 0x10
    put(path, content)


def other_names(path):
    said, state = read_metadata(path), load_file(path)
    put(path, save({f"x.{name}": tensor for name, tensor in state.items()}, said))


def other_architecture(path):
    said = read_metadata(path)
    put(path, save(load_file(path), {**said, "recipe": said["recipe"].replace("- 8\n", "- 9\n", 1)}))


def long_header(path):
    put(path, struct.pack("<Q", 1 << 40) + b"{" + path.read_bytes()[9:])


DAMAGES = {
    "missing": (lambda p: p.unlink(), "expected a weights file, there is none"),
    "empty": (lambda p: p.write_bytes(b""), "got an empty file"),
    "truncated": (lambda p: p.write_bytes(p.read_bytes()[:-100]), "damaged or changed since it was written"),
    "random bytes": (lambda p: put(p, bytes(range(200))), "damaged or truncated"),
    "an endless header": (long_header, "damaged or truncated"),
    "a changed byte": (changed_byte, "the file was changed"),
    "a pickle in disguise": (
        lambda p: p.write_bytes(pickle.dumps([1])),
        "expected safetensors, got a pickle or PyTorch file",
    ),
    "a PyTorch file in disguise": (lambda p: torch.save({"a": torch.ones(1)}, p), "--model and --weights take it"),
    "not by holdfast": (
        lambda p: put(p, save(load_file(p))),
        "expected weights written by holdfast; recipe, shape, classes",
    ),
    "other names": (other_names, "weights do not fit the model: 6 missing (normalise.mean"),
    "another architecture": (other_architecture, "weights do not fit the model: 3 of another shape"),
}


@pytest.mark.parametrize(("damage", "says"), DAMAGES.values(), ids=DAMAGES)
def test_weights_by_holdfast(here, damage, says):
    damage(here / BEST)
    line = refused("evaluate", BEST, cwd=here)
    assert says in line
    assert BEST in line


class Malicious:
    """Would make a file if a pickle that holds it were loaded."""

    def __reduce__(self):
        return (open, ("broken in", "w"))


FOREIGN = {
    "missing": (None, "expected a weights file, there is none"),
    "empty": (b"", "got an empty file"),
    "random bytes": (bytes(range(200)), "expected a state dict; got another format"),
    "a pickle": (pickle.dumps({"a": 1}), "expected "),
    "a malicious pickle": (pickle.dumps(Malicious()), "expected a state dict; got another format or objects"),
    "no tensors": ({"a": 3}, "expected named tensors, got a int under 'a'"),
    "a list": ([torch.ones(1)], "expected named tensors, got a list"),
    "a malicious checkpoint": ({"state_dict": {}, "x": Malicious()}, "that only unsafe unpickling would load"),
    "missing names": ({"1.weight": torch.zeros(12, 64)}, "weights do not fit the model: 3 missing (1.bias, 3.weight"),
    "unknown names": ({**foreign.network().state_dict(), "7.x": torch.ones(1)}, "1 unexpected (7.x)"),
    "other shapes": ({**foreign.network().state_dict(), "1.bias": torch.ones(13)}, "1.bias expects (12,), got (13,)"),
    "not finite": ({**foreign.network().state_dict(), "1.bias": torch.full((12,), torch.nan)}, "are not finite"),
}


@pytest.mark.parametrize(("content", "says"), FOREIGN.values(), ids=FOREIGN)
def test_weights_of_strangers(here, content, says):
    if isinstance(content, bytes):
        (here / "bad.pt").write_bytes(content)
    elif content is not None:
        torch.save(content, here / "bad.pt")
    argv = ["evaluate", "--model", f"{FACTORY}network", "--weights", "bad.pt", "--data", "digits.npz"]
    line = refused(*argv, cwd=here)
    assert says in line
    assert "bad.pt" in line
    assert not (here / "broken in").exists()


def test_weights_of_another_kind_of_file(here):
    (here / "weights.onnx").write_bytes(b"x")
    argv = ["evaluate", "--model", f"{FACTORY}network", "--weights", "weights.onnx", "--data", "digits.npz"]
    assert "expected safetensors or a state dict saved by PyTorch, got another format" in refused(*argv, cwd=here)


STATES = {
    "empty": b"",
    "random": bytes(range(100)),
    "a pickle": pickle.dumps({"step": 1}),
    "a malicious pickle": pickle.dumps(Malicious()),
}


def saved(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", [*STATES, "truncated", "changed", "incomplete", "a malicious checkpoint"])
def test_training_state(here, kind):
    file = here / RUN / "state.pt"
    content = file.read_bytes()
    if kind == "incomplete":
        put(file, saved({"step": 3}))
    elif kind == "a malicious checkpoint":
        put(file, saved({"step": 3, "model": Malicious()}))
    elif kind == "changed":  # the pickle inside; whatever its opcodes become
        at = content.index(b"optimizer")
        put(file, content[: at - 1] + b"\xff" + content[at:])
    else:
        put(file, STATES.get(kind, content[: len(content) // 2]))
    line = refused("run", "good.yaml", cwd=here)
    assert f"{RUN}/state.pt: expected training state written by holdfast" in line
    assert "--fresh" in line
    assert not (here / "broken in").exists()


@pytest.mark.parametrize("name", ["recipe.yaml", "run.json"])
@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[]"])
def test_files_of_a_run(here, name, content):
    put((here / RUN / name), content)
    assert f"{RUN}/{name}: " in refused("run", "good.yaml", cwd=here)


@pytest.mark.parametrize("verb", [["run", "good.yaml"], ["evaluate", RUN], ["report", RUN], ["compare", RUN, "copy"]])
@pytest.mark.parametrize("kind", ["damaged", "empty", "foreign", "other kinds of values"])
def test_ledgers(here, verb, kind):
    shutil.copytree(here / RUN, here / "copy")
    part = sorted((here / RUN / "ledger").glob("*.parquet"))[0]
    if kind == "foreign":
        put(part, to_parquet(pl.DataFrame({"a": [1]})))
    elif kind == "other kinds of values":
        put(part, to_parquet(pl.read_parquet(part).with_columns(label=pl.lit("x"))))
    else:
        put(part, part.read_bytes()[:50] if kind == "damaged" else b"")
    assert part.name in refused(*verb, cwd=here)


GRADED = {"method": pl.lit("common"), "family": pl.lit("common corruptions"), "kind": pl.lit("corruption")}
PARAMS = "a.parquet: expected a JSON object in the column params; "
GRADES = "a.parquet: expected kind, a text, and severity, 0 to 1000, in the column params of a corruption"
ROWS = {
    "params that are no JSON": ({"params": pl.lit("{")}, PARAMS),
    "params without end": ({"params": pl.lit("[" * 100_000)}, PARAMS + "values are nested too deeply"),
    "params that are a list": ({"params": pl.lit("[]")}, PARAMS + "expected a JSON object; got list"),
    "a long number": ({"params": pl.lit(f'{{"severity": {"9" * 5000}}}')}, PARAMS + "the number 999999999999..."),
    "no kind": ({**GRADED, "params": pl.lit('{"severity": 1}')}, GRADES),
    "a kind that is no text": ({**GRADED, "params": pl.lit('{"kind": [1], "severity": 1}')}, GRADES),
    "no severity": ({**GRADED, "params": pl.lit('{"kind": "fog"}')}, GRADES),
    "a severity that is no number": ({**GRADED, "params": pl.lit('{"kind": "fog", "severity": "high"}')}, GRADES),
    "a huge severity": ({**GRADED, "params": pl.lit(f'{{"kind": "fog", "severity": {2**63}}}')}, GRADES),
    "a family of an earlier version": (
        {"method": pl.lit("common"), **dict.fromkeys(("kind", "family"), pl.lit(None, pl.String))}, GRADES
    ),
    "a size that is no number": ({"size": pl.lit(math.nan)}, "a.parquet: expected finite numbers in the column size"),
    "an infinite radius": ({"radius": pl.lit(math.inf)}, "a.parquet: expected finite numbers in the column radius"),
}  # fmt: skip
"""Columns of a stranger's ledger, and what is wrong with them."""


@pytest.mark.parametrize(
    "argv", [["mce", RUN], ["compare", RUN, "copy"], ["select", RUN, "--by", "x", "--accuracy", "1", "--within", "1"]]
)
@pytest.mark.parametrize(("columns", "says"), ROWS.values(), ids=ROWS)
def test_rows_of_strangers(here, argv, columns, says):
    shutil.copytree(here / RUN, here / "copy")
    part = Ledger(here / RUN / "ledger").parts()[0]
    put(part.with_name("a.parquet"), to_parquet(pl.read_parquet(part).with_columns(**columns)))
    assert says in refused(*argv, cwd=here)


def test_noise_without_a_known_strength_is_in_no_curve(here):
    part = Ledger(here / RUN / "ledger").parts()[0]
    noise = {"method": pl.lit("gaussian_noise"), "kind": pl.lit("corruption"), "check": pl.lit("noise")}
    for name, params in (("a", "{}"), ("b", '{"variance": "x"}')):
        changed = pl.read_parquet(part).with_columns(params=pl.lit(params), size=pl.lit(None, pl.Float64), **noise)
        put(part.with_name(f"{name}.parquet"), to_parquet(changed))
    good("select", RUN, "--by", "clean", "--accuracy", "0.5", "--within", "0.5", cwd=here)


FACTORIES = {
    "no kind": (
        "nets:trades",
        "unknown name 'nets' before a colon; known: python, timm, torchvision. Did you mean 'python:nets:trades'",
    ),
    "no colon": ("python:tests.end_to_end.foreign", "expected 'package.module:factory'"),
    "no module": ("python:nowhere.at_all:network", "cannot import 'nowhere.at_all': ModuleNotFoundError"),
    "no attribute": (f"{FACTORY}netwrok", "module 'tests.end_to_end.foreign' has no 'netwrok'"),
    "not callable": (f"{FACTORY}value", "has no callable 'value'"),
    "no network": (f"{FACTORY}no_module", "to return a torch module, got a int"),
    "raises": (f"{FACTORY}raising", "model: KeyError: "),
    "needs arguments": (f"{FACTORY}needs_more", "does not take these options"),
    "too few logits": (f"{FACTORY}narrow", "expected logits of shape (1, 10); got (1, 3)"),
    "flat logits": (f"{FACTORY}flat", "expected logits of shape (1, 10); got (10,)"),
    "other channels": (f"{FACTORY}colour", "cannot be called on images of shape (1, 1, 8, 8)"),
    "raises when called": (f"{FACTORY}Quarrelsome", "cannot be called on images of shape (1, 1, 8, 8)"),
    "NaN": (f"{FACTORY}Nan", "the logits are NaN"),
    "unknown name": ("resnet19", "--model: unknown name 'resnet19'"),
    "unknown kind": ("tensorflow:net", "--model: unknown name 'tensorflow'"),
}


@pytest.mark.parametrize(("model", "says"), FACTORIES.values(), ids=FACTORIES)
def test_factories(here, model, says):
    assert says in refused("evaluate", "--model", model, "--data", "digits.npz", "--checks", "quick", cwd=here)


NETWORK = ["--model", f"{FACTORY}network", "--data", "digits.npz"]
OPTIONS = {
    "unknown verb": (["evalute"], "No such command 'evalute'"),
    "unknown option": (["run", "good.yaml", "--epochs", "3"], "No such option"),
    "no recipe": (["run"], "Missing argument 'RECIPE'"),
    "unknown family": (["list", "modles"], "list: unknown name 'modles'; known: attacks, "),
    "unknown preset": (
        ["evaluate", *NETWORK, "--checks", "quik"],
        "--checks: unknown name 'quik'; known: ",
    ),
    "data that are no source": (
        ["evaluate", "--model", f"{FACTORY}network", "--data", "{npy: {path: x.npy, severitee: 3}}"],
        "--data.npy.severitee: unknown name 'severitee'",
    ),
    "unknown data": (["evaluate", "--model", f"{FACTORY}network", "--data", "digitz"], "data: unknown name 'digitz'"),
    "no data": (["evaluate", "--model", f"{FACTORY}network"], "expected --data NAME_OR_PATH beside --model"),
    "neither run nor model": (["evaluate"], "expected a RUN, or --model with --weights and --data"),
    "run and model": (["evaluate", RUN, *NETWORK], "expected a RUN, or --model"),
    "run and weights": (["evaluate", RUN, "--weights", "good.pt"], "go with --model; got a RUN too"),
    "no such run": (["evaluate", "nowhere"], "nowhere: expected a weights file, there is none"),
    "a directory of runs": (["evaluate", "runs"], "runs: expected one run; got a directory of 1: runs/tiny/seed-0"),
    "text as mean": (
        ["evaluate", *NETWORK, "--mean", "a,b"],
        "--mean: expected numbers such as 0.49,0.48,0.45; got 'a,b'",
    ),
    "too many means": (
        ["evaluate", *NETWORK, "--mean", "1,2"],
        "--mean: expected 1 numbers, one per channel; got '1,2'",
    ),
    "an infinite mean": (["evaluate", *NETWORK, "--mean", "inf"], "--mean: expected 1 numbers"),
    "std of zero": (
        ["evaluate", *NETWORK, "--std", "0"],
        "--std: expected 1 positive numbers, one per channel; got '0'",
    ),
    "no images": (["evaluate", *NETWORK, "--subset", "0"], "Invalid value for '--subset'"),
    "too many images": (
        ["evaluate", *NETWORK, "--subset", "501"],
        "subset: expected between 1 and 500 examples, got 501",
    ),
    "no batch": (["evaluate", *NETWORK, "--batch-size", "0"], "Invalid value for '--batch-size'"),
    "half a batch": (["evaluate", *NETWORK, "--batch-size", "1.5"], "Invalid value for '--batch-size'"),
    "a newline in an option": (["evaluate", *NETWORK, "--subset", "a\nb"], "Invalid value for '--subset'"),
    "other classes": (
        ["evaluate", RUN, "--data", "three.npz"],
        "three: expected images of shape (1, 8, 8) in 10 classes",
    ),
    "a file as output": (["run", "good.yaml", "--out", "good.yaml"], "good.yaml"),
    "a directory as report": (["report", RUN, "--out", "runs"], "runs: expected the name of a file"),
    "a report of nothing": (["report", "nowhere"], "nowhere: expected a run directory"),
    "a comparison of one": (["compare", RUN], "expected two or more runs to compare; got 1"),
    "data that cannot be fetched": (["data", "fetch", "digits"], "digits"),
}


@pytest.mark.parametrize(("argv", "says"), OPTIONS.values(), ids=OPTIONS)
def test_options(here, argv, says):
    np.savez(here / "three.npz", x_test=np.zeros((3, 8, 8), np.uint8), y_test=np.arange(3))
    assert says in refused(*argv, cwd=here)


def test_data_for_tests_only_cannot_be_trained_on(here):
    np.savez(here / "tests.npz", x_test=np.zeros((3, 8, 8), np.uint8), y_test=np.arange(3))
    (here / "bad.yaml").write_text("data: {npz: tests.npz}\nmodel: mlp\n")
    assert "data tests: expected training images; it has a test split only" in refused("train", "bad.yaml", cwd=here)


def test_data_that_changed_under_a_run_is_refused(here):
    (here / "mine.yaml").write_text("data: {npz: mine.npz}\nmodel: mlp\ntrain: {epochs: 1}\n")
    np.savez(here / "mine.npz", **arrays())
    assert holdfast("run", "mine.yaml", cwd=here).code == 0
    np.savez(here / "mine.npz", **arrays(y_test=np.arange(10)[::-1].copy()))
    for argv in (["run", "mine.yaml"], ["evaluate", "runs/mine/seed-0"]):
        assert "runs/mine/seed-0: holds results of other data" in refused(*argv, cwd=here)


def test_a_loss_that_is_not_finite_ends_with_one_line(here):
    (here / "bad.yaml").write_text(TEXT + "seed: 5\n")
    line = refused("train", "bad.yaml", "--set", "train.optimizer.sgd.lr=1e30", cwd=here)
    assert "expected a finite loss, got " in line
