"""`holdfast.evaluate`: what it takes, and what a directory keeps of it."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import holdfast
from holdfast.attacks import PGD, Square
from holdfast.corruptions import Clean, GaussianNoise
from holdfast.errors import DataError, ModelError, RecipeError
from holdfast.recipe import EvaluateRecipe
from holdfast.report import write_report
from holdfast.results import Ledger
from holdfast.runs import Run
from holdfast.threat import Linf
from holdfast.trust import read_verdicts
from holdfast.wrappers import BPDA
from tests import zoo

X, Y = zoo.images(40), zoo.labels(40, 5)
ANSWERS = (zoo.linear(5)(X).argmax(1) + (torch.arange(40) % 8 == 0)) % 5
"""Labels of which the network gives 35 of 40, where more than chance level is wanted."""


def timeless(results):
    return results.rows.drop("seconds", "steps")


def correct(*arguments, **options):
    return holdfast.evaluate(*arguments, **options).rows.sort("check", "example")["correct"].to_list()


class Stream(IterableDataset):
    def __iter__(self):
        yield from zip(X, Y.tolist(), strict=True)


SOURCES = {
    "data set": lambda: TensorDataset(X, Y),
    "loader": lambda: DataLoader(TensorDataset(X, Y), batch_size=7),
    "stream": lambda: Stream(),
    "arrays": lambda: (X.numpy(), Y.numpy()),
    "lists": lambda: (X.tolist(), Y.tolist()),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_of_the_same_images_gives_the_same_rows(kind):
    source = SOURCES[kind]()
    given = source if isinstance(source, tuple) else (source,)
    checks = [Clean(), GaussianNoise(0.1)]
    found = holdfast.evaluate(zoo.linear(5), *given, checks=checks)
    assert timeless(found).equals(timeless(holdfast.evaluate(zoo.linear(5), X, Y, checks)))


def test_a_loader_that_gives_something_else_is_one_line():
    with pytest.raises(DataError, match="batch 0: expected a tensor of images and one of labels, got dict"):
        holdfast.evaluate(zoo.linear(5), DataLoader([{"x": 1}]))
    with pytest.raises(DataError, match=r"batch 0: .* got list of 3"):
        holdfast.evaluate(zoo.linear(5), DataLoader(TensorDataset(X, X, Y)))
    with pytest.raises(DataError, match="expected at least one batch, got none"):
        holdfast.evaluate(zoo.linear(5), iter([]))


def test_arguments_that_do_not_go_together_are_one_line():
    with pytest.raises(DataError, match="expected the labels of the images; got None"):
        holdfast.evaluate(zoo.linear(5), X)
    with pytest.raises(DataError, match="expected None beside TensorDataset"):
        holdfast.evaluate(zoo.linear(5), TensorDataset(X, Y), Y)
    with pytest.raises(DataError, match="say checks='standard'"):
        holdfast.evaluate(zoo.linear(5), TensorDataset(X, Y), "standard")
    with pytest.raises(DataError, match=r"in \[0, 1\].*; leave normalisation out .* give mean= and std="):
        holdfast.evaluate(zoo.linear(5), DataLoader(TensorDataset(3 * X - 1, Y)))
    with pytest.raises(ModelError, match="device: expected a torch module"):
        holdfast.evaluate(lambda x: zoo.linear(5)(x), X, Y, device="cpu")


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: lambda x: model(x)], ids=["module", "function"])
def test_a_normalisation_goes_in_front(wrap):
    model = zoo.linear(5).float()
    rows = holdfast.evaluate(wrap(model), X, Y, "clean", mean=0.4, std=[0.2] * X.shape[1]).rows
    with torch.no_grad():
        assert rows["prediction"].to_list() == model((X.float() - 0.4) / 0.2).argmax(1).tolist()
    only = holdfast.evaluate(wrap(model), X, Y, "clean", mean=0.4).rows
    with torch.no_grad():
        assert only["prediction"].to_list() == model(X.float() - 0.4).argmax(1).tolist()
    for options, message in (
        ({"std": [0.0] * X.shape[1]}, "standard deviations must be positive"),
        ({"std": 0.0}, "standard deviations must be positive"),
        ({"mean": [0.1] * (X.shape[1] + 1)}, f"mean: expected a number, or {X.shape[1]}, one per channel; got"),
    ):
        with pytest.raises(RecipeError, match=message):
            holdfast.evaluate(wrap(model), X, Y, "clean", **options)


def test_the_normalisation_has_the_precision_of_the_model():
    assert len(holdfast.evaluate(zoo.linear(5).double(), X, Y, "clean", mean=0.4).rows) == 40


def test_a_device_is_for_the_time_of_the_call():
    places = []

    class Watching(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = zoo.linear(5)

        def to(self, *where, **options):
            places.append(where[0])
            return super().to(*where, **options)

        def forward(self, x):
            return self.inner(x)

    holdfast.evaluate(Watching(), X, Y, "clean", device="cpu")
    assert places == ["cpu", torch.device("cpu")]


@pytest.mark.parametrize(
    "checks",
    [
        [Clean(), PGD(threat=Linf(0.1), steps=3)],
        ["clean", {"pgd": {"threat": {"linf": 0.1}, "steps": 3}}],
        ["clean", "{pgd: {threat: {linf: 0.1}, steps: 3}}"],
        "[clean, {pgd: {threat: {linf: 1/10}, steps: 3}}]",
    ],
)
def test_checks_are_methods_names_or_as_in_a_recipe(checks):
    expected = holdfast.evaluate(zoo.linear(5), X, Y, [Clean(), PGD(threat=Linf(0.1), steps=3)])
    assert timeless(holdfast.evaluate(zoo.linear(5), X, Y, checks)).equals(timeless(expected))


def test_sweeps_stand_for_several_checks():
    table = holdfast.evaluate(zoo.linear(5), X, Y, {"gaussian_noise": {"sigma": {"each": [0.1, 0.2]}}}).table
    assert table["check"].to_list() == ["gaussian_noise sigma=0.1", "gaussian_noise sigma=0.2"]


def test_an_attack_without_its_threat_is_told_what_to_say():
    with pytest.raises(
        RecipeError,
        match=r"pgd.threat: expected a value; got nothing; write, for example, \{pgd: \{threat: \{linf: 8/255",
    ):
        holdfast.evaluate(zoo.linear(5), X, Y, "pgd")


def test_a_directory_keeps_results_and_goes_on(tmp_path):
    model, out = zoo.linear(5), tmp_path / "mine"
    first = holdfast.evaluate(model, X, Y, ["clean"], out=out)
    files = {file: file.stat().st_mtime_ns for file in (out / "ledger").glob("*.parquet")}
    both = holdfast.evaluate(model, X, Y, ["clean", "{gaussian_noise: 0.1}"], out=str(out))
    assert set(both.rows["check"]) == {"clean", "gaussian_noise sigma=0.1"}
    assert files.items() <= {file: file.stat().st_mtime_ns for file in (out / "ledger").glob("*.parquet")}.items()
    assert timeless(first).equals(timeless(holdfast.evaluate(model, X, Y, "clean", out=out)))
    assert len(Ledger(out / "ledger").read()) == 80
    assert holdfast.write_report([out], tmp_path / "page.html").exists()


def edited(model, sign):
    forward = model.forward
    model.forward = lambda x: sign * forward(x)
    return model


def test_a_directory_of_another_network_is_refused(tmp_path):
    out = tmp_path / "mine"
    before = holdfast.evaluate(zoo.linear(5), X, Y, "clean", out=out)
    for other, what in (
        (edited(zoo.linear(5), -1), "a network that computes something else"),
        (BPDA(zoo.linear(5), lambda x: 1 - x), "a network that computes something else"),
        (zoo.linear(5).float(), "other weights"),
    ):
        with pytest.raises(
            RecipeError, match=f"mine: holds results of {what}.* choose another directory, or delete this one"
        ):
            holdfast.evaluate(other, X, Y, "clean", out=out)
    for images, options, what in (
        (1 - X, {}, "data"),
        (X, {"seed": 1}, "seed"),
        (X, {"settings": EvaluateRecipe(batch_size=300)}, "block"),
    ):
        with pytest.raises(RecipeError, match=f"holds results of other {what}"):
            holdfast.evaluate(zoo.linear(5), images, Y, "clean", out=out, **options)
    assert Ledger(out / "ledger").read()["prediction"].equals(before.rows["prediction"])


def test_functions_are_told_apart_by_what_they_compute(tmp_path):
    factor = torch.arange(5.0)
    holdfast.evaluate(lambda x: x.flatten(1)[:, :5] * factor, X, Y, "clean", out=tmp_path)
    holdfast.evaluate(lambda x: factor * x.flatten(1)[:, :5], X, Y, "clean", out=tmp_path)
    with pytest.raises(RecipeError, match="computes something else"):
        holdfast.evaluate(lambda x: x.flatten(1)[:, 1:6] * factor, X, Y, "clean", out=tmp_path)


def test_results_of_a_budget_that_ran_out_are_what_there_is(tmp_path):
    none = holdfast.evaluate(zoo.linear(5), X, Y, "clean", out=tmp_path, settings=EvaluateRecipe(budget=0.0))
    assert (len(none.rows), none.not_run) == (0, {"clean": 40})
    assert len(holdfast.evaluate(zoo.linear(5), X, Y, "clean", out=tmp_path).rows) == 40


def test_a_trained_run_is_not_written_to(tmp_path):
    from tests.training.tiny import recipe, train

    train(recipe("train.epochs=1"), tmp_path / "run")
    with pytest.raises(RecipeError, match="holds a network that was trained there"):
        holdfast.evaluate(zoo.linear(5), X, Y, "clean", out=tmp_path / "run")
    assert Run(tmp_path / "run").labels()


def test_numpy_integers_are_labels_of_a_data_set():
    pairs = [(x, np.int64(y)) for x, y in zip(X, Y.tolist(), strict=True)]
    assert correct(zoo.linear(5), pairs, checks="clean") == correct(zoo.linear(5), X, Y, "clean")


def test_clean_accuracy_is_measured_and_printed_first_whatever_the_checks():
    attack = PGD(threat=Linf(0.1), steps=2)
    alone, both = (holdfast.evaluate(zoo.linear(5), X, ANSWERS, checks) for checks in (attack, [attack, Clean()]))
    assert timeless(alone).equals(timeless(both).filter(both.rows["check"] != "clean"))
    assert alone.clean.drop("seconds", "steps").equals(both.clean.drop("seconds", "steps"))
    assert alone.clean["correct"].to_list() == (torch.arange(40) % 8 != 0).tolist()
    for results in (alone, both):
        lines = [line for line in str(results).splitlines() if "% [" in line]
        assert lines[0].startswith(" clean ")
        assert sum("clean " in line for line in lines) == 1


def test_every_row_is_printed_with_its_whole_name_and_its_numbers():
    eps = [round(0.001 * k, 3) for k in range(1, 31)]
    checks = [PGD(threat=Linf(size), steps=1, step_size=0.0123456789, random_start=False) for size in eps]
    results = holdfast.evaluate(zoo.linear(5), X, ANSWERS, checks)
    first, *lines = [line for line in str(results).splitlines() if "% [" in line]
    assert first.startswith(" clean ")
    rows = [*results.table.to_dicts(), *results.worst_case.to_dicts()]
    for row, line in zip(rows, lines, strict=True):
        assert line.startswith(f" {row['check']} ")
        assert f"{100 * row['accuracy']:.1f} % [{100 * row['low']:.1f}, {100 * row['high']:.1f}]" in line
    assert len(lines) == 2 * len(checks)
    assert results._repr_html_().count("<tr") == len(lines) + 3


def test_images_scaled_otherwise_than_in_training_are_named_with_a_remedy(tmp_path):
    x, y = zoo.digits()
    model = nn.Sequential(nn.BatchNorm2d(1, momentum=None), nn.Flatten(), nn.Linear(64, 10))
    model.train()((x - 0.5) / 0.1)  # and still in training mode
    assert holdfast.evaluate(model, x, y, "clean", mean=0.5, std=0.1).warnings == ()
    expected = "inputs of the first batch normalisation have 0.01 times the variance it recorded.* mean= and std="
    with pytest.warns(UserWarning, match=expected):
        results = holdfast.evaluate(model, x, y, "clean", out=tmp_path)
    assert [stored.verdict.flag for stored in read_verdicts(tmp_path)] == ["scaling"]
    assert len(results.warnings) == 1


def test_probabilities_are_told_apart_from_logits_and_named_with_a_remedy(tmp_path):
    soft = nn.Sequential(zoo.linear(5).float(), nn.Softmax(1))
    with pytest.warns(UserWarning, match="40 of 40 rows of the output .* sum to 1; return logits.* remove the softmax"):
        results = holdfast.evaluate(soft, X, ANSWERS, "clean", out=tmp_path)
    assert len(results.warnings) == 1
    assert f"Warning: {results.warnings[0]}" in str(results)
    (verdict,) = read_verdicts(tmp_path)
    assert (verdict.verdict.flag, verdict.verdict.level) == ("probabilities", "fail")
    assert "sum to 1" in write_report([tmp_path], tmp_path / "page.html").read_text()
    assert holdfast.evaluate(zoo.linear(5), X, Y, "clean").warnings == ()
    logarithms = nn.Sequential(zoo.linear(5).float(), nn.LogSoftmax(1))
    assert holdfast.evaluate(logarithms, X, Y, "clean").warnings == ()


def test_white_box_attacks_that_a_masked_gradient_misleads_are_named_with_a_remedy(tmp_path):
    x, y = zoo.digits()
    masked = zoo.Masked(zoo.digits_mlp())
    checks = [PGD(threat=Linf(0.3), steps=3), Square(threat=Linf(0.3), queries=100)]
    with pytest.warns(UserWarning, match="square.* breaks .*gradients mislead the white-box attack"):
        results = holdfast.evaluate(masked, x[:60], y[:60], checks, out=tmp_path)
    assert len(results.warnings) == 1
    assert f"Warning: {results.warnings[0]}" in str(results)
    verdicts = {stored.verdict.flag: stored.verdict.level for stored in read_verdicts(tmp_path)}
    assert verdicts == {"chance": "pass", "eps": "not tested", "convergence": "not tested", "black-box": "fail"}
