"""Checks on a model: rows that can be computed by hand, in blocks that nothing changes."""

import copy
import dataclasses
import itertools

import numpy as np
import polars as pl
import pytest
import torch

import holdfast
from holdfast.attacks import FGSM, PGD
from holdfast.corruptions import Clean, GaussianNoise, UniformNoise
from holdfast.data import Split
from holdfast.errors import DataError, ModelError, RecipeError
from holdfast.evaluation import Subject, evaluate, evaluations
from holdfast.losses import margin
from holdfast.recipe import EvaluateRecipe
from holdfast.results import SCHEMA, Ledger
from holdfast.threat import L2, Linf
from tests import zoo

CHECKS = [Clean(), GaussianNoise(0.2), FGSM(threat=Linf(0.05)), PGD(threat=L2(0.3), steps=5, restarts=2)]


def data(count=40, *, shift=0):
    x = zoo.images(count, (1, 4, 4), dtype=torch.float32)
    return Split(x, zoo.labels(count, 5), torch.arange(count) + shift)


def rows(model, split, checks=CHECKS, **how):
    blocks = evaluations(Subject(model, hash="h"), split, checks, how=EvaluateRecipe(**how))
    return pl.concat([block.rows for block in blocks])


def timeless(frame):
    return frame.drop("seconds").sort("weights", "check", "example")


def test_rows_are_those_by_hand_on_a_half_space():
    model = zoo.HalfSpace(torch.tensor([1.0, -2.0]), torch.tensor(0.5))
    x = torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.1, 0.9], [0.5, 0.4]]).view(4, 1, 1, 2)
    y = torch.tensor([0, 1, 0, 0])
    result = holdfast.evaluate(model, x, y, [Clean(), FGSM(threat=Linf(0.1))]).rows
    m = (x.flatten(1) @ torch.tensor([1.0, -2.0]) + 0.5).double()  # 0, 1.2, -1.2, 0.2
    moved = m + torch.where(y == 1, -0.3, 0.3)  # every coordinate goes 0.1 against it
    for check, signed, distance, queries in (("clean", m, 0.0, 1), ("fgsm linf eps=0.1", moved, 0.1, 2)):
        part = result.filter(pl.col("check") == check)
        loss = torch.log1p(torch.exp(torch.where(y == 1, -2 * signed, 2 * signed)))
        assert part["example"].to_list() == [0, 1, 2, 3]
        assert part["label"].to_list() == y.tolist()
        assert part["prediction"].to_list() == (signed > 1e-6).long().tolist()
        assert part["correct"].to_list() == ((signed > 1e-6).long() == y).tolist()
        assert part["loss"].to_list() == pytest.approx(loss.tolist(), abs=1e-6)
        assert part["distance"].to_list() == pytest.approx([distance] * 4, abs=1e-6)
        assert part["queries"].to_list() == [queries] * 4


def test_rows_have_the_columns_of_the_ledger_and_say_where_they_come_from():
    frame = rows(zoo.linear(5), data(3), [FGSM(threat=Linf(0.05))])
    assert dict(frame.schema) == SCHEMA
    said = frame.row(0, named=True)
    assert (said["run"], said["weights"], said["weights_hash"], said["method"]) == ("model", "given", "h", "fgsm")
    assert said["params"] == '{"loss": "cross_entropy", "threat": {"linf": {"eps": 0.05}}}'
    assert (said["norm"], said["radius"], said["seed"]) == ("linf", None, 0)


def test_three_lines_are_enough():
    model, (x, y) = zoo.digits_mlp(), zoo.digits()
    results = holdfast.evaluate(model, x[:50], y[:50])
    assert str(results).count("pgd linf eps=8/255") == 1
    table = dict(results.table.select("check", "accuracy").iter_rows())
    with torch.no_grad():
        assert table["clean"] == float((model(x[:50]).argmax(1) == y[:50]).double().mean())
    attacked = results.rows.filter(pl.col("method") != "gaussian_noise")
    everywhere = attacked.group_by("example").agg(pl.col("correct").all())["correct"].mean()
    assert results.worst_case.select("check", "accuracy").rows() == [("worst case, linf eps=8/255", everywhere)]


@pytest.mark.parametrize("size", [1, 7, 256])
def test_in_double_precision_nothing_depends_on_the_batch_size(size):
    model, exact = zoo.smooth(), ["example", "label", "prediction", "correct", "queries", "norm"]
    found, expected = rows(model, data(), batch_size=size), rows(model, data(), batch_size=16)
    assert found.select(exact).equals(expected.select(exact))
    for column in ("loss", "distance"):
        assert np.allclose(found[column], expected[column], rtol=1e-9, atol=1e-12)


def on_the_boundary(model, x):
    """Images halfway between neighbours, bisected until two classes tie but for rounding; and all classes' margins."""
    low, high = x[:-1].double(), x[1:].double()
    label = model(low).argmax(1)
    for _ in range(40):
        middle = (low + high) / 2
        same = (model(middle).argmax(1) == label)[:, None, None, None]
        low, high = torch.where(same, middle, low), torch.where(same, high, middle)
    return low.float(), label


def rounding(model, x):
    """Bound on the error of float32 logits of a perceptron with one hidden layer, whatever the order of its sums.

    A sum of n products is off by at most (n + 1) * 2**-24 of the sum of magnitudes (Higham, Accuracy and Stability of
    Numerical Algorithms, section 3.1); the second layer carries the error of the first on.
    """
    (first, second), unit = (model[1], model[3]), 66 * 2.0**-24
    hidden = x.flatten(1).double().abs() @ first.weight.abs().T + first.bias.abs()
    return unit * (hidden @ second.weight.abs().T * (2 + unit) + second.bias.abs())


@torch.no_grad()
def test_in_single_precision_outcomes_differ_only_where_the_margin_is_rounding():
    single, double = zoo.digits_mlp(), copy.deepcopy(zoo.digits_mlp()).double()
    x, y = on_the_boundary(double, zoo.digits()[0][:200])
    split = Split(x, y, torch.arange(len(x)))
    exact, bound = margin(double(x.double()), y), 2 * rounding(double, x).amax(1)
    outcomes = [torch.tensor(rows(single, split, [Clean()], batch_size=b)["correct"].to_list()) for b in (1, 7, 256)]
    clear = exact.abs() > bound
    for correct in outcomes:
        assert torch.equal(correct[clear], (exact < 0)[clear])
    assert (~clear).sum() > 20  # the images do put it to the test


def test_blocks_are_full_and_cut_in_the_order_of_indices_whatever_the_order_of_the_split():
    split = data(10, shift=3).select(torch.tensor([9, 0, 4, 5, 7]))  # indices 12, 3, 7, 8, 10
    for order in (slice(None), [4, 2, 0, 1, 3]):
        blocks = list(evaluations(Subject(zoo.linear(5)), split.select(order), [Clean()], how=EvaluateRecipe(block=2)))
        assert [(block.done, block.total, list(block.rows["example"])) for block in blocks] == [
            (2, 5, [3, 7]), (4, 5, [8, 10]), (5, 5, [12]),
        ]  # fmt: skip


def test_other_examples_are_other_work(tmp_path):
    for count, there in ((10, False), (10, True), (9, False)):
        blocks = evaluations(Subject(zoo.linear(5)), data(count), [Clean()], ledger=Ledger(tmp_path))
        assert [block.rows is None for block in blocks] == [there]


def test_the_same_example_has_the_same_row_in_any_company():
    model, whole = zoo.smooth(), data(30)
    alone = rows(model, whole.select(torch.tensor([17, 4])), block=5)
    among = rows(model, whole, block=30).filter(pl.col("example").is_in([4, 17]))
    exact = ["check", "example", "prediction", "correct", "queries"]
    assert timeless(alone).select(exact).equals(timeless(among).select(exact))
    assert np.allclose(timeless(alone)["loss"], timeless(among)["loss"], rtol=1e-9)


def test_the_seed_matters_and_the_global_random_state_does_not():
    def noisy(seed):
        blocks = evaluations(Subject(zoo.smooth()), data(), [GaussianNoise(0.2)], seed=seed)
        return pl.concat([block.rows for block in blocks])

    torch.manual_seed(1)
    one = noisy(0)
    before = torch.get_rng_state()
    two = noisy(0)
    assert torch.equal(torch.get_rng_state(), before)
    assert timeless(one).equals(timeless(two))
    assert one["loss"].to_list() != noisy(1)["loss"].to_list()


def ledger_run(path, *, stop=None, model=None, gallery=None, checks=CHECKS):
    """Evaluate into a ledger, or into it until so many blocks were seen; returns the blocks."""
    subject = Subject(model or zoo.smooth(), hash="h")
    work = evaluations(
        subject, data(), checks, how=EvaluateRecipe(block=15, batch_size=4), ledger=Ledger(path), gallery=gallery
    )
    return list(itertools.islice(work, stop))


def test_interrupted_after_any_block_the_ledger_ends_up_the_same(tmp_path):
    whole = ledger_run(tmp_path / "whole")
    assert len(whole) == len(CHECKS) * 3
    expected = timeless(Ledger(tmp_path / "whole").read())
    for stop in range(len(whole) + 1):
        path = tmp_path / str(stop)
        before, after = ledger_run(path, stop=stop), ledger_run(path)
        assert [block.rows is None for block in after] == [True] * len(before) + [False] * (len(whole) - len(before))
        assert timeless(Ledger(path).read()).equals(expected)
        assert [p.name for p in Ledger(path).parts()] == [p.name for p in Ledger(tmp_path / "whole").parts()]


def test_exactly_the_missing_parts_are_run_again(tmp_path):
    ledger_run(tmp_path)
    expected = timeless(Ledger(tmp_path).read())
    for part in Ledger(tmp_path).parts()[::3]:
        part.unlink()
    again = ledger_run(tmp_path)
    assert sum(block.rows is not None for block in again) == 4
    assert timeless(Ledger(tmp_path).read()).equals(expected)


def test_another_seed_hash_or_block_size_is_other_work(tmp_path):
    ledger_run(tmp_path, checks=[Clean()])
    base = Subject(zoo.smooth(), hash="h")
    for subject, seed, block in (
        (dataclasses.replace(base, hash="other"), 0, 15), (base, 1, 15), (base, 0, 20), (base, 0, 15),
    ):  # fmt: skip
        blocks = evaluations(
            subject, data(), [Clean()], how=EvaluateRecipe(block=block), seed=seed, ledger=Ledger(tmp_path)
        )
        done = [found.rows is None for found in blocks]
        assert done == [subject is base and seed == 0 and block == 15] * len(done)


def test_the_gallery_keeps_the_first_images_of_every_check_that_changes_them(tmp_path):
    ledger_run(tmp_path / "ledger", gallery=tmp_path / "gallery")
    files = sorted((tmp_path / "gallery").glob("*.npz"))
    assert len(files) == len(CHECKS) - 1  # not of the clean images
    model = zoo.smooth()
    for file in files:
        kept = np.load(file, allow_pickle=False)
        # of two batches of four
        assert kept["x"].shape == kept["z"].shape == (8, 1, 4, 4)
        assert kept["x"].dtype == kept["z"].dtype == np.float32
        assert kept["example"].tolist() == [*range(8)]
        assert np.array_equal(kept["x"], data().x[:8].numpy())
        with torch.no_grad():
            assert kept["before"].tolist() == model(torch.from_numpy(kept["x"]).double()).argmax(1).tolist()
        row = Ledger(tmp_path / "ledger").read().filter(pl.col("check") == str(kept["check"])).head(8)
        assert kept["after"].tolist() == row["prediction"].to_list()
        assert kept["distance"].tolist() == row["distance"].to_list()


def test_a_model_may_be_any_function_and_a_check_any_callable():
    def model(x):
        return torch.stack((-x.mean((1, 2, 3)), x.mean((1, 2, 3)) - 0.5), 1)

    def darker(x, *, rng=None):
        return x / 4

    @dataclasses.dataclass(frozen=True)
    class Brighter:
        by: float = 0.5

        def __call__(self, x, *, rng=None):
            return (x + self.by).clamp(0, 1)

    x, y = torch.full((3, 1, 2, 2), 0.4), torch.tensor([0, 1, 1])
    table = holdfast.evaluate(model, x, y, [darker, Brighter(), Brighter(0.2)]).table
    assert dict(table.select("check", "correct").iter_rows()) == {"darker": 1, "Brighter": 2, "Brighter by=0.2": 2}


@pytest.mark.filterwarnings("ignore:inputs of the first batch normalisation")  # it was never trained
def test_a_module_is_judged_in_eval_mode_and_left_in_its_own():
    model = zoo.with_dropout()
    modes = [module.training for module in model.modules()]
    x, y = zoo.images(6, (1, 4, 4)), zoo.labels(6, 3)
    one, two = (holdfast.evaluate(model, x, y, [Clean(), FGSM(threat=Linf(0.1))]).rows for _ in range(2))
    assert timeless(one).equals(timeless(two))
    assert [module.training for module in model.modules()] == modes
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_a_model_is_asked_in_its_own_precision(kind):
    model = zoo.linear(5).to(kind)
    frame = rows(model, data(6), [Clean(), UniformNoise(0.1)])
    with torch.no_grad():
        assert frame["prediction"].to_list()[:6] == model(data(6).x.to(kind)).argmax(1).tolist()


def test_a_check_that_comes_twice_is_refused():
    with pytest.raises(RecipeError, match="checks: expected each check once; got 'clean' 2 times"):
        holdfast.evaluate(zoo.linear(5), data().x, data().y, [Clean(), Clean()])


def test_logits_that_are_nan_are_never_counted():
    def model(x):
        logits = torch.zeros(len(x), 5)
        logits[x[:, 0, 0, 0] > 0.5, 0] = torch.nan
        return logits

    bad = (data().x[:, 0, 0, 0] > 0.5).nonzero().flatten().tolist()
    with pytest.raises(ModelError, match=f"logits are NaN for {len(bad)} of 40 examples, first at index {bad[0]}"):
        holdfast.evaluate(model, data().x, data().y, [Clean()])


def test_logits_of_minus_infinity_are_fine():
    def model(x):
        return torch.tensor([0.0, 1.0, -torch.inf, 0.0, 0.0]).repeat(len(x), 1)

    frame = holdfast.evaluate(model, data().x, data().y, [Clean()]).rows
    assert set(frame["prediction"]) == {1}


def test_images_and_labels_are_checked_at_the_border():
    with pytest.raises(DataError, match=r"expected float images in \[0, 1\]"):
        holdfast.evaluate(zoo.linear(5), data().x * 2, data().y)
    with pytest.raises(DataError, match="expected one label for each"):
        holdfast.evaluate(zoo.linear(5), data().x, data().y[:3])
    with pytest.raises(
        RecipeError, match=r"checks: unknown name 'quik'; known: .*full.*quick.*standard.*Did you mean 'quick'"
    ):
        holdfast.evaluate(zoo.linear(5), data().x, data().y, "quik")


def test_uint8_images_are_divided_by_255():
    x = (data().x * 255).round().to(torch.uint8)
    one = holdfast.evaluate(zoo.linear(5), x, data().y, [Clean()]).rows
    two = holdfast.evaluate(zoo.linear(5), x.float() / 255, data().y, [Clean()]).rows
    assert timeless(one).equals(timeless(two))


def test_distances_are_within_the_budget_and_queries_are_counted():
    frame = rows(zoo.smooth(), data(), [PGD(threat=Linf(0.05), steps=3), PGD(threat=L2(0.3), steps=3)])
    for check, eps in (("linf", 0.05), ("l2", 0.3)):
        part = frame.filter(pl.col("norm") == check)
        assert part["distance"].max() <= eps * (1 + 1e-12)
    model = zoo.smooth()
    with torch.no_grad():
        lost = (margin(model(data().x.double()), data().y) > 0).tolist()
    queries = frame.filter(pl.col("norm") == "linf").sort("example")["queries"].to_list()
    assert [q for q, gone in zip(queries, lost, strict=True) if gone] == [2] * sum(lost)  # looked at once, then judged
    assert all(2 < q <= 1 + 3 + 1 + 1 for q, gone in zip(queries, lost, strict=True) if not gone)


def test_arrays_and_a_single_check_are_welcome():
    x, y = zoo.images(6, dtype=torch.float32), zoo.labels(6, 5)
    one = evaluate(zoo.linear(5, dtype=torch.float32), x.numpy(), y.numpy(), Clean())
    assert one.rows["example"].to_list() == list(range(6))


@pytest.mark.parametrize(
    ("classes", "checks", "kind", "says"),
    [
        (5, [], RecipeError, "checks: expected at least one"),
        (3, [Clean()], ModelError, r"expected logits of shape \(1, at least 5\); got \(1, 3\)"),
    ],
)
def test_what_cannot_be_checked_is_refused_before_the_work(classes, checks, kind, says):
    x, y = zoo.images(6, dtype=torch.float32), torch.tensor([0, 1, 2, 3, 4, 0])
    with pytest.raises(kind, match=says):
        evaluate(zoo.linear(classes, dtype=torch.float32), x, y, checks)
