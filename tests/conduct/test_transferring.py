"""Matrices of transfer: points once for each source and attack, the same bytes after a stop, one set of images."""

import contextlib
import shutil
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch

from holdfast.attacks import FGSM
from holdfast.attacks.transfer_loop import MI
from holdfast.conduct.matrix_networks import control_of, entries_of, require_same_images
from holdfast.conduct.transferring import run_matrix
from holdfast.errors import RecipeError
from holdfast.recipe.matrix import Matrix, load_matrix
from holdfast.recipe.schema import EvaluateRecipe
from holdfast.report.transfers import records
from holdfast.results.ledger import Ledger
from holdfast.results.matrices import read_matrix
from holdfast.results.transfers import CLEAN, check_name
from holdfast.runs import load_model, prepare
from holdfast.threat import Linf
from tests.training.tiny import recipe, train

MADE: list[tuple[str, int]] = []


@dataclass(frozen=True, kw_only=True)
class Watched:
    """FGSM that records how often it is called."""

    persistent: ClassVar = True

    threat: Linf
    name: str = "watched"

    def __call__(self, model, x, y, *, target=None, rng=None):
        MADE.append((self.name, len(x)))
        return FGSM(threat=self.threat)(model, x, y, target=target, rng=rng)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """Six networks of three kinds."""
    place = tmp_path_factory.mktemp("zoo")
    for number in range(6):
        kind = ("{mlp: {hidden: [8]}}", "linear", "{cnn: {blocks: [[2]], hidden: []}}")[number % 3]
        # The name of a run is its recipe's: they are told apart by it.
        text = (f"model={kind}", "train.epochs=1", f"name=zoo/net{number}", f"train.optimizer.sgd.lr=0.{number + 1}")
        train(recipe(*text), place / f"net{number}")
    return place


@pytest.fixture
def place(zoo, tmp_path):
    """A copy of them, to be changed."""
    return shutil.copytree(zoo, tmp_path / "zoo")


def matrix(place, count=6, attacks=8, **fields):
    paths = tuple(f"{place}/net{number}" for number in range(count))
    each = tuple(Watched(threat=Linf(0.02 * (n + 1)), name=f"attack {n}") for n in range(attacks))
    return Matrix(name="cross", sources=paths, attacks=each, **{"test_first": 20, **fields})


def fill(of, out, records_wanted=None):
    work = run_matrix(of, out, lambda run: contextlib.nullcontext())
    seen = []
    for record in work:
        seen.append(record)
        if len(seen) == records_wanted:
            work.close()
            break
    return seen


def content(out):
    """All files of a matrix but for journals of checksums, whose lines stand in the order of writing."""
    files = sorted(path for path in (out / "cross").rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(out)): path.read_bytes() for path in files if "checksums" not in path.name}


def test_points_are_made_once_for_each_source_and_attack(tmp_path, zoo):
    MADE.clear()
    seen = fill(matrix(zoo), tmp_path)
    assert len(MADE) == 6 * 8
    assert seen[-1].done == seen[-1].total == 20 * (6 + 6 * 8 * 6)
    rows = Ledger(tmp_path / "cross" / "rows").read()
    assert len(rows) == 20 * (6 + 288)
    assert len(list((tmp_path / "cross" / "points").glob("*.npy"))) == 48
    fill(matrix(zoo), tmp_path)
    assert len(MADE) == 48


def test_stopped_and_resumed_it_leaves_the_same_bytes(tmp_path, zoo):
    of = matrix(zoo, 2, 2, evaluate=EvaluateRecipe(block=8, batch_size=3))
    fill(of, tmp_path / "whole")
    for stop in (1, 7, 9):  # in the clean images, at a block of points, within the points of an attack
        fill(of, tmp_path / "stopped", stop)
    fill(of, tmp_path / "stopped")
    assert content(tmp_path / "stopped") == content(tmp_path / "whole")


def test_points_and_rows_do_not_depend_on_the_batch(tmp_path, zoo):
    tables = []
    for size in (3, 64):
        of = matrix(zoo, 2, 1, evaluate=EvaluateRecipe(batch_size=size))
        fill(of, tmp_path / str(size))
        tables.append(records(read_matrix(tmp_path / str(size) / "cross")))
    assert tables[0]["rates"] == tables[1]["rates"]


@pytest.mark.parametrize("size", [3, 64])
def test_defended_networks_are_targets_and_sources(tmp_path, zoo, size):
    for name, defence in (("squeezed", "bit_depth"), ("voting", "{gaussian_votes: {copies: 4}}")):
        model = f"model={{defended: {{network: '{zoo}/net0', defence: {defence}}}}}"
        train(recipe(model, f"name=zoo/{name}"), tmp_path / name)
    paths = tuple(f"{tmp_path}/{name}" for name in ("squeezed", "voting"))
    of = matrix(zoo, 1, 1, targets=(f"{zoo}/net0", *paths), evaluate=EvaluateRecipe(batch_size=size))
    of = replace(of, sources=(f"{zoo}/net0", paths[0]))
    fill(of, tmp_path)
    data = read_matrix(tmp_path / "cross")
    defended = {one["name"]: (one["defence"], one["defends"]) for one in data.facts["networks"]}
    assert list(defended.values()) == [(None, None), ("bit_depth", "net0"), ("gaussian_votes copies=4", "net0")]
    model, x = (
        load_model(tmp_path / "voting").model.eval(),
        prepare(recipe("data.test_first=20").data, 0).test.batch(slice(None))[0],
    )
    rows = Ledger(tmp_path / "cross" / "rows").read().filter(check=CLEAN, run="voting").sort("example")
    assert rows["prediction"].to_list() == model(x).argmax(1).tolist()
    assert data.counted_targets({"name": "a", "before": "net0", "witnesses": []}) == []


def test_what_a_changed_source_left_is_dropped_and_nothing_else(tmp_path, place):
    of = matrix(place, 3, 2)
    fill(of, tmp_path)
    before = content(tmp_path)
    shutil.rmtree(place / "net0")
    text = ("model={mlp: {hidden: [8]}}", "train.epochs=1", "name=zoo/net0", "train.optimizer.sgd.lr=0.01")
    train(recipe(*text), place / "net0")
    MADE.clear()
    fill(of, tmp_path)
    assert len(MADE) == 2  # its points under both attacks
    after = content(tmp_path)
    points = {name for name in before if "/points/" in name}
    assert len(points & after.keys()) == 4
    assert len([name for name in after if "/points/" in name]) == 6
    rows = Ledger(tmp_path / "cross" / "rows").read()
    assert len(rows) == 20 * (3 + 3 * 2 * 3)


def test_points_are_those_of_the_attack_on_the_source(tmp_path, zoo):
    of = replace(matrix(zoo, 2, 1), attacks=(replace(MI, threat=Linf(0.1), steps=3),))
    fill(of, tmp_path)
    loaded = [load_model(f"{zoo}/net{number}") for number in (0, 1)]
    test = prepare(of.images(loaded[0].card.recipe.data), 0).test
    x, y = test.batch(slice(None))
    order = test.index.argsort()
    z = of.attacks[0](loaded[0].model, x, y)
    rows = Ledger(tmp_path / "cross" / "rows").read()
    label = read_matrix(tmp_path / "cross").facts["attacks"][0]
    for number, one in enumerate(loaded):
        mine = rows.filter((rows["run"] == f"net{number}") & (rows["check"] == check_name(label, "net0")))
        with torch.no_grad():
            assert mine["correct"].to_list() == (one.model(z).argmax(1) == y)[order].tolist()
        assert mine["distance"].max() <= 0.1 + 1e-6
        assert set(mine["norm"]) == {"linf"}
    clean = rows.filter((rows["run"] == "net1") & (rows["check"] == CLEAN))
    assert clean["correct"].to_list() == (loaded[1].model(x).argmax(1) == y)[order].tolist()


def test_networks_of_other_images_are_refused(tmp_path, place):
    shutil.rmtree(place / "net1")
    train(recipe("data={source: digits, subset: 40}", "train.epochs=1", "name=zoo/net1"), place / "net1")
    fill(matrix(place, 2, 1), tmp_path)  # another choice of training images of the same data set
    metadata = "expected a network of the data set digits"
    other = replace(prepare(recipe().data, 0), fingerprint="0" * 16)
    (entry, *_) = entries_of(matrix(place, 2, 1))
    with pytest.raises(RecipeError, match=metadata):
        require_same_images(entry, other)
    with pytest.raises(RecipeError, match="expected a network of 2 classes"):
        require_same_images(entry, replace(other, classes=("a", "b")))


def test_targets_on_which_a_source_was_selected_are_refused_behind_a_defence_too(tmp_path, zoo):
    chosen = recipe(
        "name=zoo/chosen", "train.epochs=1", f"train.init_from={zoo}/net0",
        f"train.selection={{metric: transfer_rate, attack: mi, target: '{zoo}/net3'}}",
    )  # fmt: skip
    train(chosen, tmp_path / "chosen")
    train(recipe(f"model={{defended: {{network: '{zoo}/net3', defence: jpeg}}}}", "name=zoo/safe"), tmp_path / "safe")
    of = replace(matrix(zoo, 1, 1), sources=(f"{zoo}/net0", f"{tmp_path}/chosen"), targets=(f"{zoo}/net1",))
    assert len(entries_of(of)) == 3
    for target, name in ((f"{zoo}/net3", "net3"), (f"{tmp_path}/safe", "safe")):
        with pytest.raises(RecipeError, match=f"targets: .*{name}: expected networks on which no source was selected"):
            entries_of(replace(of, targets=(target,)))


def test_what_is_no_matrix_is_one_line(tmp_path, zoo):
    file = tmp_path / "m.yaml"
    cases = {
        "sources: []\nattacks: [mi]": "sources: expected at least one",
        "sources: [a]\nattacks: []": "attacks: expected at least one",
        "sources: [a, a]\nattacks: [mi]": "sources: expected each run once",
        "sources: [a]\nattacks: [{pgdd: {}}]": "unknown name 'pgdd'",
        "sources: [a]\nattacks: [{deepfool: {threat: {linf: 0.1}}}]": "it must climb to the end",
        "sources: [a]\nattacks: [mi]\ntest_first: 2\ntest_subset: 2": "expected test_subset or test_first, got both",
        "[]": "expected a mapping with sources and attacks",
    }
    for text, message in cases.items():
        file.write_text(text)
        with pytest.raises(RecipeError, match=message):
            load_matrix(file)
    file.write_text("sources: [runs/nothing]\nattacks: [mi]")
    with pytest.raises(RecipeError, match="there is none"):
        fill(load_matrix(file), tmp_path)
    assert load_matrix(file, ["test_first=7"]).test_first == 7
    assert load_matrix(file).name == "m"


def test_controls_are_known_by_their_recipe(zoo):
    align = "train.objective={align: {witnesses: [w]}}"
    origins = {"init_from": {"sha256": "1"}, "witnesses": [{"sha256": "2"}]}
    assert control_of(recipe(align), origins) == ""
    assert control_of(recipe(align), {**origins, "witnesses": [{"sha256": "1"}]}) == "aligned with itself"
    assert control_of(recipe(align, "train.optimizer={sgd: {lr: 0}}"), origins) == "aligned at rate 0"
    assert control_of(recipe(), origins) == "trained on"
    smooth = recipe("train.objective={standard: {label_smoothing: 0.1}}")
    assert control_of(smooth, origins) == "trained on with label smoothing 0.1"
    assert control_of(recipe(), {}) == ""
