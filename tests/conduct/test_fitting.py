"""`holdfast.fit`: the training of a recipe, for a network that is an object."""

import copy
import dataclasses
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import holdfast
from holdfast.conduct.fit_inputs import described
from holdfast.data import Dataset, Digits
from holdfast.errors import (
    CheckpointError,
    DataError,
    HoldfastError,
    LedgerError,
    ModelError,
    RecipeError,
    TrainingError,
)
from holdfast.losses import cross_entropy
from holdfast.models import read_state, with_logits
from holdfast.objectives import TRADES
from holdfast.objectives.hooks import Hooks
from holdfast.optim import SGD
from holdfast.recipe import TrainRecipe
from holdfast.runs import Run, new_model
from holdfast.testing.untouched import same_random_states
from holdfast.threat import Linf
from holdfast.types import Terms
from tests.training.tiny import layered, network, recipe, splits, train

TRAIN = {"epochs": 2, "batch_size": 8, "optimizer": {"sgd": {"lr": 0.1}}}
DATA = {"source": "digits", "validation": 0.4, "subset": 40}
TRADES_ = {"trades": {"threat": {"linf": 0.1}, "steps": 1, "batch_stats": "split"}}


class StoppedError(Exception):
    """The caller has had enough."""


def after(records):
    """A progress function that stops the training."""
    seen = []

    def take(record):
        seen.append(record)
        if len(seen) == records:
            raise StoppedError

    return take


def bits(model):
    return {name: tensor.numpy().tobytes() for name, tensor in model.state_dict().items()}


def small():
    torch.manual_seed(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 10))


def some(count=40):
    x, y = Digits()().train.batch(slice(0, count))
    return x, y


@pytest.mark.parametrize("objective", [None, TRADES_], ids=["standard", "trades"])
def test_it_is_the_training_of_a_recipe_to_the_bit(tmp_path, objective):
    of = recipe("model={python: 'tests.training.tiny:network'}")
    if objective is not None:
        trades = TRADES(threat=Linf(0.1), steps=1, batch_stats="split")
        of = dataclasses.replace(of, train=dataclasses.replace(of.train, objective=trades))
    train(of, tmp_path / "recipe")
    model = new_model(of, splits(of), trust=True)
    fitted = holdfast.fit(model, DATA, objective, train=TRAIN, out=tmp_path / "fit")
    for label in ("best", "last"):
        ours, theirs = (read_state(Run(tmp_path / name).weights(label)) for name in ("fit", "recipe"))
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert fitted.weights == "best"
    assert bits(fitted.model) == {k: v.numpy().tobytes() for k, v in model.state_dict().items()}
    assert [epoch["epoch"] for epoch in fitted.metrics] == [1, 2]


def test_the_splits_of_a_recipe_given_as_objects_are_the_same_training():
    of = recipe("model={python: 'tests.training.tiny:network'}", "data.augment=[{random_crop: 1}]")
    cut = splits(of)
    named, given = new_model(of, cut, trust=True), new_model(of, cut, trust=True)
    augment = [{"random_crop": 1}]
    holdfast.fit(named, {**DATA, "augment": augment}, TRADES_, train=TRAIN)
    holdfast.fit(given, {"source": cut.train, "augment": augment}, TRADES_, validation=cut.validation, train=TRAIN)
    assert bits(given) == bits(named)


def test_it_returns_the_module_it_was_given_with_the_best_weights_ready_for_use(tmp_path):
    model = small()
    fitted = holdfast.fit(model, some(), validation=0.4, train=TRAIN, out=tmp_path)
    assert fitted.model is model
    assert not any(module.training for module in model.modules())
    assert all(weight.grad is None for weight in model.parameters())
    best = read_state(tmp_path / "best.safetensors")
    assert all(torch.equal(best[name], tensor) for name, tensor in model.state_dict().items())
    assert fitted.path == tmp_path
    assert bits(holdfast.fit(small(), some(), validation=0.4, train=TRAIN, device="cpu").model) == bits(model)


def test_the_best_weights_may_be_earlier_ones(tmp_path):
    x, y = some()
    wrong = (x, (y + 5) % 10)  # the more it learns, the worse it does
    settings = {**TRAIN, "epochs": 4, "selection": {"metric": "loss"}}
    fitted = holdfast.fit(small(), (x, y), validation=wrong, train=settings, out=tmp_path)
    assert [epoch["best"] for epoch in fitted.metrics] == [True, False, False, False]
    best, last = (read_state(tmp_path / f"{label}.safetensors") for label in ("best", "last"))
    weights = fitted.model.state_dict()
    assert all(torch.equal(best[name], tensor) for name, tensor in weights.items())
    assert not all(torch.equal(last[name], tensor) for name, tensor in weights.items())


@pytest.mark.parametrize("stop", range(1, 8))
def test_stopped_and_called_again_it_ends_with_the_same_bits(tmp_path, stop):
    whole = holdfast.fit(small(), some(), TRADES_, validation=0.4, train=TRAIN)
    with pytest.raises(StoppedError):
        holdfast.fit(small(), some(), TRADES_, validation=0.4, train=TRAIN, out=tmp_path, progress=after(stop))
    other = small()
    nn.init.zeros_(other[1].weight)  # whatever the network is now, the state counts
    resumed = holdfast.fit(other, some(), TRADES_, validation=0.4, train=TRAIN, out=tmp_path)
    assert bits(resumed.model) == bits(whole.model)
    timeless = [[{**e, "seconds": 0, "cost": None} for e in fitted.metrics] for fitted in (whole, resumed)]
    assert timeless[0] == timeless[1]
    again = holdfast.fit(small(), some(), TRADES_, validation=0.4, train=TRAIN, out=tmp_path, progress=after(1))
    assert bits(again.model) == bits(whole.model)  # nothing was left to do


def test_the_global_random_states_are_left_alone(tmp_path):
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 10))
    with same_random_states():
        holdfast.fit(model, some(), validation=0.2, train=TRAIN)


@pytest.mark.parametrize(
    "given",
    [
        lambda x, y: (x, y),
        lambda x, y: (x.numpy(), y.numpy()),
        lambda x, y: TensorDataset(x, y),
        lambda x, y: DataLoader(TensorDataset(x, y), batch_size=7),
        lambda x, y: Digits()().train.select(slice(0, len(y))),
        lambda x, y: {"source": (x, y)},
        lambda x, y: Dataset("mine", tuple("0123456789"), Digits()().train.select(slice(0, len(y))), Digits()().test),
    ],
    ids=["tensors", "arrays", "map-style", "loader", "split", "source", "data set"],
)
def test_all_ways_to_give_the_same_images_are_the_same_training(given):
    expected = bits(holdfast.fit(small(), some(), train=TRAIN).model)
    assert (
        bits(
            holdfast.fit(
                small(), given(*some()), train=TrainRecipe(epochs=2, batch_size=8, optimizer=SGD(lr=0.1))
            ).model
        )
        == expected
    )


def test_validation_images_of_their_own_select_the_weights(tmp_path):
    x, y = some(60)
    fitted = holdfast.fit(
        small(), (x[:40], y[:40]), validation=(x[40:], y[40:]), out=tmp_path,
        train={**TRAIN, "selection": {"metric": "robust_accuracy", "attack": {"fgsm": {"threat": {"linf": 0.1}}}}},
    )  # fmt: skip
    assert fitted.weights in ("best", "last")
    with torch.no_grad():
        right = float((fitted.model(x[40:]).argmax(1) == y[40:]).double().mean())
    best = [epoch for epoch in fitted.metrics if epoch["best"]][-1]
    assert best["validation"]["accuracy"] == pytest.approx(right)
    assert holdfast.load_run(tmp_path).facts["data"]["validation"] == 20


def test_a_recipe_augments_for_it(tmp_path):
    plain = holdfast.fit(small(), some(), train=TRAIN)
    flipped = holdfast.fit(small(), {"source": some(), "augment": ["horizontal_flip"]}, train=TRAIN)
    assert bits(plain.model) != bits(flipped.model)


@dataclasses.dataclass(frozen=True)
class Confident:
    """Cross entropy and a share of the largest logit."""

    weight: float = 0.1

    def __call__(self, model, x, y, *, rng=None):
        logits = model(x)
        large = logits.amax(1).mean()
        return Terms(cross_entropy(logits, y).mean() + self.weight * large, {"large": large})


class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, model, x, y, *, rng=None):
        self.seen = self.seen + len(x)
        return Terms(cross_entropy(model(x), y).mean(), {"seen": self.seen})


@dataclasses.dataclass(frozen=True)
class WithMemory:
    hooks = Hooks(start=lambda model, classes, examples: Remembering())

    def __call__(self, model, x, y, *, rng=None):
        return Remembering()(model, x, y)


def test_an_objective_of_ones_own_trains_and_resumes(tmp_path):
    fitted = holdfast.fit(small(), some(), Confident(weight=0.5), train=TRAIN)
    assert "large" in fitted.metrics[0]["train"]
    with pytest.raises(StoppedError):
        holdfast.fit(small(), some(), WithMemory(), train=TRAIN, out=tmp_path, progress=after(3))
    resumed = holdfast.fit(small(), some(), WithMemory(), train=TRAIN, out=tmp_path)
    assert [round(epoch["train"]["seen"], 9) for epoch in resumed.metrics] == [24.0, 64.0]
    with pytest.raises(RecipeError, match="trained with other objective"):
        holdfast.fit(small(), some(), Confident(), train=TRAIN, out=tmp_path)


def test_another_training_in_the_same_directory_is_refused_unless_fresh(tmp_path):
    holdfast.fit(small(), some(), train=TRAIN, out=tmp_path)
    for changes, what in (({"seed": 1}, "seed"), ({"train": {**TRAIN, "epochs": 3}}, "epochs")):
        with pytest.raises(RecipeError, match="trained with other ") as refused:
            holdfast.fit(small(), some(), **{"train": TRAIN, "out": tmp_path, **changes})
        assert what in str(refused.value)
    with pytest.raises(RecipeError, match="trained with other images"):
        holdfast.fit(small(), some(41), train=TRAIN, out=tmp_path)
    longer = holdfast.fit(small(), some(), train={**TRAIN, "epochs": 3}, out=tmp_path, fresh=True)
    assert len(longer.metrics) == 3


class Weighted:
    """An objective that is no dataclass."""

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, model, x, y, *, rng=None):
        return Terms(self.weight * cross_entropy(model(x), y).mean())


class WeightedModule(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight, self.inner = weight, [self]
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, model, x, y, *, rng=None):
        self.scale.data += 1
        return Terms(self.weight * cross_entropy(model(x), y).mean())


@pytest.mark.parametrize("kind", [Weighted, lambda weight: partial(weighted, weight=weight)], ids=["object", "partial"])
def test_another_objective_of_the_same_class_is_refused(tmp_path, kind):
    holdfast.fit(small(), some(), kind(0.5), train=TRAIN, out=tmp_path)
    holdfast.fit(small(), some(), kind(0.5), train=TRAIN, out=tmp_path)
    with pytest.raises(RecipeError, match=r"trained with other objective; .*fresh=True"):
        holdfast.fit(small(), some(), kind(0.9), train=TRAIN, out=tmp_path)


def weighted(model, x, y, *, rng=None, weight):
    return Weighted(weight)(model, x, y)


def test_what_is_described_of_an_objective_is_not_its_state():
    objective = WeightedModule(0.5)
    before = described(objective)
    holdfast.fit(small(), some(), objective, train=TRAIN)
    assert described(objective) == before
    assert described(WeightedModule(0.9)) != before


def test_a_network_with_other_layers_is_refused(tmp_path):
    holdfast.fit(small(), some(), train=TRAIN, out=tmp_path)
    other = small()
    other[3] = nn.Tanh()
    wide = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    for changed in (other, wide):
        with pytest.raises(RecipeError, match=r"trained with other layers; .*fresh=True"):
            holdfast.fit(changed, some(), train=TRAIN, out=tmp_path)


def test_fresh_deletes_nothing_but_a_run_of_its_own(tmp_path):
    train(recipe(), tmp_path / "a")
    Run(tmp_path / "a").record(name="a")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RecipeError, match=r"holds a run that holdfast\.fit did not train"):
        holdfast.fit(small(), some(), train=TRAIN, out=tmp_path / "a", fresh=True)
    holdfast.fit(small(), some(), train=TRAIN, out=tmp_path, fresh=True)
    assert (tmp_path / "notes.txt").exists()
    assert (tmp_path / "a" / "last.safetensors").exists()


def test_what_it_leaves_is_read_by_load_run(tmp_path):
    fitted = holdfast.fit(small(), some(), validation=0.4, train=TRAIN, out=tmp_path / "mine")
    run = holdfast.load_run(tmp_path / "mine")
    assert (run.name, run.weights[0]) == ("mine", fitted.weights)
    assert run.facts["model"] == {"name": "Sequential", "parameters": sum(p.numel() for p in small().parameters())}
    assert run.facts["fit"]["epochs"] == 2
    with pytest.raises(LedgerError, match="expected a ledger with results"):
        assert run.ledger is None
    assert run.answers == {}
    with pytest.raises(LedgerError, match=r"expected .*results"):
        run.report()
    for read in (run.model, lambda: run.recipe):
        with pytest.raises(CheckpointError, match=r"got those of a network that holdfast\.fit trained; load them into"):
            read()
    other = run.model(into=small())
    assert not other.training
    assert bits(other) == bits(fitted.model)


class Answer:
    def __init__(self, logits):
        self.logits = logits


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = small()

    def forward(self, x):
        return Answer(self.inside(x))


def test_a_network_that_answers_with_a_record_of_logits_is_trained_too(tmp_path):
    model = Wrapped()
    fitted = holdfast.fit(model, some(), train=TRAIN, out=tmp_path)
    assert fitted.model is model
    assert bits(model.inside) == bits(holdfast.fit(small(), some(), train=TRAIN).model)
    run = holdfast.load_run(tmp_path)
    assert run.facts["model"]["name"] == "Wrapped"
    for again in (run.model(into=Wrapped()), run.model(into=with_logits(Wrapped(), X))):
        assert [tensor.tolist() for tensor in again.state_dict().values()] == [
            tensor.tolist() for tensor in model.state_dict().values()
        ]
    with pytest.raises(StoppedError):
        holdfast.fit(Wrapped(), some(), train=TRAIN, out=tmp_path / "b", progress=after(3))
    assert bits(holdfast.fit(Wrapped(), some(), train=TRAIN, out=tmp_path / "b").model) == bits(model)


@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode])
def test_it_trains_where_gradients_are_off(around):
    model = small()
    with around():
        holdfast.fit(model, some(), train=TRAIN)
        assert not torch.is_grad_enabled()
    assert bits(model) == bits(holdfast.fit(small(), some(), train=TRAIN).model)


def test_a_fitted_run_without_results_shows_what_it_trained(tmp_path):
    holdfast.fit(small(), some(), train=TRAIN, out=tmp_path / "mine")
    run = holdfast.load_run(tmp_path / "mine")
    assert "no results yet; weights: last." in run._repr_html_()
    for into, got in ((nn.Linear, "the class Linear"), (3, "int")):
        with pytest.raises(ModelError, match=f"into: expected a network; got {got}"):
            run.model(into=into)


def test_progress_is_silent_unless_asked_for(capsys, monkeypatch):
    holdfast.fit(small(), some(), train=TRAIN)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("holdfast.show.progress.FIRST", 0.0)
    holdfast.fit(small(), some(), validation=0.4, train={**TRAIN, "epochs": 40}, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("train fit  ")


def returning(change, **parts):
    """An objective with a changed total."""
    return lambda model, x, y, *, rng=None: Terms(change(cross_entropy(model(x), y).mean()), parts)


PYTHON = {"python": {"at": "a:B"}}
X, Y = torch.rand(20, 1, 8, 8), torch.arange(20) % 10


@pytest.mark.parametrize(
    ("changes", "kind", "line"),
    [
        ({"model": lambda x: x}, ModelError, "model: expected a torch module; got function"),
        ({"model": nn.Flatten()}, ModelError, "model: expected parameters to train; got none that requires a gradient"),
        ({"model": nn.Linear(3, 10)}, ModelError, "the model cannot be called on images of shape"),
        ({"model": nn.Sequential(nn.Flatten(), nn.Linear(64, 4))}, ModelError, "expected logits of shape"),
        ({"model": small().double()}, RecipeError, "train.fabric.precision: expected 64-true"),
        ({"data": (X + 1, Y)}, DataError, r"expected .*\[0, 1\]"),
        ({"data": X}, DataError, "data: expected images with labels, such as a pair of tensors; got Tensor"),
        ({"data": 5}, DataError, "data: expected images with labels, such as a pair of tensors; got int"),
        ({"data": (X, 2 * (Y // 2))}, DataError, "data: expected examples of every class, got none of class 1"),
        ({"validation": Digits()()}, DataError, "validation: expected images and labels; got a data set"),
        ({"validation": (X, Y + 1)}, DataError, "validation: expected images of shape .* labels up to 10"),
        ({"train": 5}, RecipeError, "train: expected a TrainRecipe or its fields; got 5"),
        ({"data": "digit"}, RecipeError, "data.source: .*digits"),
        ({"data": {"source": (X, Y), "augmnt": []}}, RecipeError, "data.augmnt"),
        ({"validation": 1.5}, RecipeError, "validation must lie in"),
        ({"validation": 0.2, "data": {"source": "digits", "validation": 0.1}}, RecipeError, "expected it once"),
        ({"validation": (X[:, :, :4], Y)}, DataError, "validation: expected images of shape"),
        ({"objective": "tradez"}, RecipeError, "objective: unknown name 'tradez'"),
        ({"objective": TRADES}, RecipeError, "objective: expected an objective; got the class TRADES"),
        ({"objective": 3}, RecipeError, "objective: expected an objective; int cannot be called"),
        ({"objective": nn.CrossEntropyLoss()}, RecipeError, "CrossEntropyLoss: .*its call does not accept `rng`"),
        ({"objective": lambda model, x, y: None}, RecipeError, "an objective; .*its call does not accept `rng`"),
        ({"objective": PYTHON}, RecipeError, r"train\.objective: names a:B; import it and pass the object"),
        ({"train": {"objective": PYTHON}}, RecipeError, r"train\.objective: names a:B; import it"),
        ({"data": {"source": PYTHON}}, RecipeError, r"data\.source: names a:B; import it and pass the object"),
        ({"objective": returning(lambda loss: loss.detach())}, TrainingError, "a total that requires a gradient"),
        ({"objective": returning(lambda loss: loss.expand(2))}, TrainingError, r"got one of shape \(2,\)"),
        ({"objective": returning(lambda loss: loss, a=1.0)}, TrainingError, "a to be a scalar tensor; got float"),
        ({"model": small().half()}, ModelError, "model: expected weights in float32 or float64; got float16"),
        ({"model": small().bfloat16()}, ModelError, "in float32 or float64; got bfloat16"),
        ({"model": nn.Sequential(nn.Flatten(), nn.LazyLinear(10))}, ModelError, "expected weights; got lazy ones"),
        ({"out": __file__}, RecipeError, "out: expected a directory; .* is a file"),
        ({"out": Path(__file__) / "a"}, RecipeError, "out: expected a directory; .* is a file"),
        ({"out": ""}, RecipeError, "out: expected a directory; got an empty name"),
        ({"data": (X * 2 - 1, Y)}, DataError, "in front of the network with holdfast.normalised"),
        ({"data": [X, Y]}, DataError, r"pass a tuple \(x, y\)"),
        ({"objective": lambda model, x, y, rng: model(x).mean()}, HoldfastError, r"expected Terms; got Tensor"),
        ({"train": {"epoch": 3}}, RecipeError, "train.epoch: unknown name 'epoch'"),
        ({"train": {"selection": {"patience": 3}}}, RecipeError, "selection.patience needs data.validation"),
        ({"train": {"fabric": {"devices": 2}}}, RecipeError, "train.fabric.devices: expected 1"),
        ({"device": "tpu"}, RecipeError, "device: expected a device of this machine"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_is_one_line(changes, kind, line):
    given = {"model": small(), "data": (X, Y), "train": TRAIN, **changes}
    with pytest.raises(kind, match=line) as refused:
        holdfast.fit(given.pop("model"), given.pop("data"), given.pop("objective", None), **given)
    assert "\n" not in str(refused.value)


def test_the_example_of_the_documentation_runs(tmp_path, monkeypatch, capsys):
    text = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    section = text.partition("## In Python")[2]
    code = section.partition("```python\n")[2].partition("```")[0]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/training.md", "exec"), {})
    assert "accuracy" in capsys.readouterr().out
    assert holdfast.load_run("runs/mine").weights


def test_layers_called_as_methods_of_other_networks_are_no_matter():
    for make in (layered, network):
        model = make()
        before = bits(copy.deepcopy(model))
        assert bits(holdfast.fit(model, some(), train=TRAIN).model) != before


def test_the_arguments_are_left_as_they_are():
    data, settings = {"source": some(), "augment": ["horizontal_flip"]}, copy.deepcopy(TRAIN)
    before = [part.clone() for part in data["source"]]
    holdfast.fit(small(), data, train=settings)
    assert settings == TRAIN
    assert data.keys() == {"source", "augment"}
    assert all(torch.equal(one, other) for one, other in zip(before, data["source"], strict=True))
    assert not isinstance(before[0], np.ndarray)
