"""The training loop against a bare loop, and what it promises beside the weights."""

import copy
import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from holdfast.errors import CheckpointError, DataError, RecipeError, TrainingError
from holdfast.models import load_weights, read_state
from holdfast.rng import permutation
from holdfast.runs import Run, load_model, new_model
from holdfast.training import Epoch, Step, fit
from holdfast.training.batches import Batches, cuts
from tests.tampering import put
from tests.training.tiny import RECORDS, TIMES, metrics, outcome, recipe, splits, train


def bare_loop(of, make, *, ema=None, clip=None, l1=0.0):
    """Weights after two epochs of plain PyTorch, with a cosine from the closed form."""
    model = new_model(of, splits(of)).train()
    optimizer, mean = make(model.parameters()), copy.deepcopy(model)
    data = splits(of).train
    for step in range(6):
        epoch, batch = divmod(step, 3)
        x, y = data.batch(permutation(len(data), 0, f"order of epoch {epoch}")[8 * batch : 8 * batch + 8])
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * (1 + math.cos(math.pi * step / 6)) / 2
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        for weight in model.parameters():
            weight.grad += l1 * weight.detach().sign()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(mean.parameters(), model.parameters(), strict=True):
                slow.mul_(ema or 0).add_((1 - (ema or 0)) * fast)
    return (model if ema is None else mean).state_dict()


@pytest.mark.parametrize(
    ("overrides", "make", "options"),
    [
        ([], lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True, weight_decay=5e-4), {}),
        (["train.optimizer.sgd={lr: 0.1, momentum: 0, nesterov: false}"],
         lambda p: torch.optim.SGD(p, 0.1, weight_decay=5e-4), {}),
        (["train.optimizer.adam.lr=0.1"], lambda p: torch.optim.Adam(p, 0.1), {}),
        (["train.optimizer.adamw.lr=0.1"], lambda p: torch.optim.AdamW(p, 0.1, weight_decay=0.01), {}),
        (["train.optimizer.rmsprop.lr=0.1"], lambda p: torch.optim.RMSprop(p, 0.1, 0.99), {}),
        (["train.clip=0.05"], lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True, weight_decay=5e-4), {"clip": 0.05}),
        (["train.ema=0.75"], lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True, weight_decay=5e-4), {"ema": 0.75}),
        (["train.l1=0.02"], lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True, weight_decay=5e-4), {"l1": 0.02}),
    ],
    ids=["sgd", "no momentum", "adam", "adamw", "rmsprop", "clip", "ema", "l1"],
)  # fmt: skip
def test_does_what_a_bare_loop_does(tmp_path, overrides, make, options):
    of = recipe(*overrides)
    train(of, tmp_path)
    expected = bare_loop(of, make, **options)
    found = read_state(Run(tmp_path).weights("last"))
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-5, atol=1e-6)


def test_records_count_steps_and_epochs(tmp_path):
    records = train(recipe(), tmp_path)
    steps = [r for r in records if isinstance(r, Step)]
    epochs = [r for r in records if isinstance(r, Epoch)]
    assert [(s.step, s.total, s.epoch) for s in steps] == [(n + 1, 6, n // 3 + 1) for n in range(6)]
    assert [(e.epoch, e.step) for e in epochs] == [(1, 3), (2, 6)]
    assert epochs[0].train["total"] == pytest.approx(sum(s.loss for s in steps[:3]) / 3)
    assert metrics(tmp_path) == [
        {key: value for key, value in dataclasses.asdict(e).items() if key not in {*TIMES, "halved"}} for e in epochs
    ]


def test_named_parts_of_the_objective_are_reported(tmp_path):
    (epoch, _) = (r for r in train(recipe("train.objective=clean_and_noisy"), tmp_path) if isinstance(r, Epoch))
    assert epoch.train["total"] == pytest.approx((epoch.train["clean"] + epoch.train["noisy"]) / 2)


def test_leaves_the_global_random_state_as_it_was(tmp_path):
    torch.manual_seed(7)
    before = torch.get_rng_state()
    for _ in fit(of := recipe("model={python: 'tests.training.tiny:network'}"), splits(of), Run(tmp_path), trust=True):
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.initial_seed() == 7


def test_the_global_random_state_changes_nothing(tmp_path):
    of = recipe("model={python: 'tests.training.tiny:network'}")
    for seed in (1, 2):
        torch.manual_seed(seed)
        train(of, tmp_path / str(seed))
    assert outcome(tmp_path / "1") == outcome(tmp_path / "2")


@pytest.mark.parametrize("more", ["", ", mean: [0.5], std: [0.25]"], ids=["bare", "normalised"])
def test_layers_may_be_called_as_methods_are_elsewhere(tmp_path, more):
    of = recipe(f"model={{python: {{factory: 'tests.training.tiny:layered'{more}}}}}")
    assert len(train(of, tmp_path)) == RECORDS


def test_ahead_is_what_the_epoch_has_not_seen():
    of = recipe()
    batches = Batches(of, splits(of).train, 10)
    left = torch.cat([splits(of).train.index[batches.rows(1, number)] for number in (1, 2)])
    assert torch.equal(batches.ahead(1, 1), left)
    assert len(batches.ahead(1, 0)) == 24


def test_another_seed_gives_other_weights(tmp_path):
    for seed in (0, 1):
        train(recipe(f"seed={seed}"), tmp_path / str(seed))
    one, two = (load_model(tmp_path / str(seed)) for seed in (0, 1))
    assert one.card.hash != two.card.hash


def test_a_loss_that_is_not_finite_names_step_and_batch_and_keeps_the_last_good_weights(tmp_path):
    of = recipe("train.schedule={multistep: {milestones: [1], gamma: 1e30}}")
    with pytest.raises(TrainingError) as caught:
        train(of, tmp_path)
    order = permutation(24, 0, "order of epoch 1")
    examples = ", ".join(str(int(i)) for i in splits(of).train.index[order[8:16]])
    assert f"step 5 (epoch 2): expected a finite loss, got nan; batch of examples {examples};" in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert load_model(Run(tmp_path).weights("last")).card.epoch == 1
    assert load_model(Run(tmp_path).weights("best")).card.epoch == 1
    with pytest.raises(TrainingError, match=r"step 5 \(epoch 2\)"):  # and again after resuming
        train(of, tmp_path)


def test_gradients_that_are_not_finite_are_clipped_silently_and_end_in_the_loss_of_the_next_step(tmp_path):
    of = recipe("train.clip=1", "model={python: 'tests.training.tiny:kinked'}")
    with pytest.raises(TrainingError, match=r"step 2 \(epoch 1\): expected a finite loss, got nan"):
        train(of, tmp_path)


def test_data_without_training_images_is_refused(tmp_path):
    of = recipe()
    with pytest.raises(DataError, match="data digits: expected training images; it has a test split only"):
        next(fit(of, dataclasses.replace(splits(of), train=None), Run(tmp_path)))


@pytest.mark.parametrize("fabric", ["{precision: fine}", "{strategy: best}", "{accelerator: abacus}"])
def test_a_device_or_precision_that_there_is_not_is_the_recipes_fault(tmp_path, fabric):
    with pytest.raises(RecipeError, match=r"^train\.fabric: "):
        train(recipe(f"train.fabric={fabric}"), tmp_path)


@pytest.mark.parametrize(
    "objective",
    ["standard", "{adversarial: {attack: {pgd: {threat: {linf: 0.1}, steps: 2}}}}", "{soar: {threat: {linf: 0.1}}}"],
)
def test_mixed_precision_trains_whatever_gradients_the_objective_takes(tmp_path, objective):
    train(recipe("train.fabric.precision=bf16-mixed", f"train.objective={objective}"), tmp_path)
    assert {tensor.dtype for tensor in load_model(tmp_path).model.state_dict().values()} == {torch.float32}


@pytest.mark.parametrize(("precision", "kind"), [("64-true", torch.float64), ("bf16-true", torch.bfloat16)])
def test_weights_come_back_in_the_precision_they_were_trained_in(tmp_path, precision, kind):
    train(recipe(f"train.fabric.precision={precision}"), tmp_path)
    model = load_model(tmp_path).model
    assert {tensor.dtype for tensor in model.state_dict().values()} == {kind}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "expected training state written by holdfast"),
        (b"junk" * 40, "expected training state written by holdfast"),
        (None, "expected training state of this recipe"),
    ],
)
def test_a_damaged_state_is_named_and_not_overwritten(tmp_path, content, says):
    train(recipe(), tmp_path, 2)
    state = Run(tmp_path).state
    if content is None:
        other = recipe("model.mlp.hidden=[9]")
        train(other, tmp_path / "other", 2)
        content = Run(tmp_path / "other").state.read_bytes()
    state.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"state\.pt: damaged or changed since it was written: .*--fresh"):
        train(recipe(), tmp_path)
    put(state, content)
    with pytest.raises(CheckpointError, match=says) as caught:
        train(recipe(), tmp_path)
    assert str(state) in str(caught.value)
    assert "--fresh" in str(caught.value)
    assert state.read_bytes() == content


def test_no_code_in_a_state_can_run(tmp_path):
    class Malicious:
        def __reduce__(self):
            return (open, (str(tmp_path / "broken in"), "w"))

    torch.save({"step": 1, "model": Malicious()}, Run(tmp_path).state)
    with pytest.raises(CheckpointError, match="expected training state written by holdfast"):
        train(recipe(), tmp_path)
    assert not (tmp_path / "broken in").exists()


@pytest.mark.parametrize(
    ("examples", "size", "expected"),
    [
        (6, 3, [(0, 3), (3, 6)]),
        (7, 3, [(0, 3), (3, 6)]),
        (8, 3, [(0, 3), (3, 6), (6, 8)]),
        (2, 1, [(0, 1), (1, 2)]),
        (1, 3, [(0, 1)]),
    ],
)
def test_a_last_batch_of_one_is_dropped_where_there_are_others(examples, size, expected):
    assert [(cut.start, cut.stop) for cut in cuts(examples, size)] == expected


def test_the_running_mean_copies_statistics_and_averages_weights(tmp_path):
    of = recipe("train.ema=0.5", "model={python: 'tests.training.tiny:network'}")
    train(of, tmp_path)
    state = torch.load(Run(tmp_path).state, weights_only=True)
    for name, tensor in state["model"].items():
        averaged = not name.endswith(("running_mean", "running_var", "num_batches_tracked", "mean", "std"))
        assert torch.equal(state["mean"][name], tensor) != averaged, name
    saved = new_model(of, splits(of), trust=True)
    load_weights(saved, Run(tmp_path).weights("last"))
    assert all(torch.equal(tensor, state["mean"][name]) for name, tensor in saved.state_dict().items())
