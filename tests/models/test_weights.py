import pickle
import random

import numpy as np
import pytest
import torch
from torch import nn

from holdfast.errors import CheckpointError
from holdfast.models import MODELS, build, load_weights, normalised, read_metadata, read_state, write_weights
from holdfast.models.resnet import ResNet

SMALL = ResNet(blocks=(1, 1, 1, 1), width=0.1)


class Evil:
    def __reduce__(self):
        return (pytest.fail, ("the pickle was executed",))


def small(seed=0, classes=3):
    return build(SMALL, (1, 8, 8), classes, seed=seed, mean=[0.5], std=[0.25])


def same(first, second):
    a, b = first.state_dict(), second.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def test_round_trip_keeps_every_bit_and_the_metadata(tmp_path):
    path, first, second = tmp_path / "w.safetensors", small(0), small(1)
    first.train()(torch.rand(4, 1, 8, 8))  # running statistics too
    write_weights(path, first.state_dict(), {"recipe": "a: 1\nb: 2"})
    assert not same(first, second)
    load_weights(second, path)
    assert same(first, second)
    assert read_metadata(path) == {"recipe": "a: 1\nb: 2"}
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["checksums.txt", "w.safetensors"]


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".ckpt"])
@pytest.mark.parametrize("nested", [None, "state_dict", "model", "model_state_dict", "net"])
def test_reads_files_of_training_scripts(tmp_path, suffix, nested):
    path, first, second = tmp_path / f"w{suffix}", small(0), small(1)
    torch.save(first.state_dict() if nested is None else {nested: first.state_dict(), "epoch": 3}, path)
    load_weights(second, path)
    assert same(first, second)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model.", "module._orig_mod."])
def test_takes_the_prefix_of_wrappers_off(tmp_path, prefix):
    path, first, second = tmp_path / "w.safetensors", small(0), small(1)
    write_weights(path, {prefix + key: value for key, value in first.state_dict().items()}, {})
    assert read_state(path).keys() == first.state_dict().keys()
    load_weights(second, path)
    assert same(first, second)


def test_a_prefix_that_belongs_to_the_model_stays(tmp_path):
    def make():
        return nn.ModuleDict({"model": nn.Linear(2, 2)})

    first, second = make(), make()
    write_weights(tmp_path / "w.safetensors", first.state_dict(), {})
    load_weights(second, tmp_path / "w.safetensors")
    assert same(first, second)


def test_weights_of_a_bare_network_fit_behind_a_normalisation(tmp_path):
    bare, model = nn.Linear(2, 2), normalised(nn.Linear(2, 2), [0.5], [0.25])
    write_weights(tmp_path / "bare.safetensors", bare.state_dict(), {})
    load_weights(model, tmp_path / "bare.safetensors")
    assert same(bare, model.network)
    write_weights(tmp_path / "whole.safetensors", model.state_dict(), {})
    other = normalised(nn.Linear(2, 2), [0.0], [1.0])
    load_weights(other, tmp_path / "whole.safetensors")
    assert same(model, other)


def test_shared_and_strided_tensors_are_written_under_each_name(tmp_path):
    weight = torch.arange(6.0).view(2, 3)
    write_weights(tmp_path / "w.safetensors", {"a": weight, "b": weight, "c": weight.T, "d": weight[:, 1]}, {})
    state = read_state(tmp_path / "w.safetensors")
    assert all(torch.equal(state[key], value) for key, value in {"a": weight, "b": weight, "c": weight.T}.items())
    assert torch.equal(state["d"], weight[:, 1])


def test_what_a_killed_process_left_half_written_is_removed(tmp_path):
    left = tmp_path / f".w.safetensors.{'0' * 16}.tmp"
    left.write_text("half")
    write_weights(tmp_path / "w.safetensors", {"a": torch.ones(2)}, {})
    assert not left.exists()


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "w.safetensors"
    write_weights(path, {"a": torch.ones(2)}, {})

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(CheckpointError, match="cannot write weights: No space left on device"):
        write_weights(path, {"a": torch.zeros(2)}, {})
    assert torch.equal(read_state(path)["a"], torch.ones(2))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["checksums.txt", "w.safetensors"]


def test_a_directory_that_cannot_be_is_an_error_of_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="cannot write weights: "):
        write_weights(tmp_path / "file" / "w.safetensors", {"a": torch.zeros(2)}, {})


def fails(path, message, read=read_state):
    with pytest.raises(CheckpointError, match=message) as error:
        read(path)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize("read", [read_state, read_metadata])
def test_says_what_is_not_a_file(tmp_path, read):
    fails(tmp_path, "got a directory", read)
    fails(tmp_path / "none.safetensors", "there is none", read)
    (tmp_path / "empty.safetensors").touch()
    fails(tmp_path / "empty.safetensors", "got an empty file", read)


def test_another_format_is_refused(tmp_path):
    (tmp_path / "w.onnx").write_bytes(b"x")
    fails(tmp_path / "w.onnx", "expected safetensors or a state dict saved by PyTorch, got another format")
    with (tmp_path / "w.npz").open("wb") as file:
        np.savez(file, a=np.ones(2))
    fails(tmp_path / "w.npz", "expected a")


@pytest.mark.parametrize("suffix", ["", ".model", ".bin", ".tar", ".pt", ".safetensors"])
@pytest.mark.parametrize("old", [False, True])
def test_the_content_decides_and_not_the_suffix(tmp_path, suffix, old):
    state, path = {"a": torch.ones(2)}, tmp_path / f"w{suffix}"
    torch.save(state, path, _use_new_zipfile_serialization=not old)
    assert torch.equal(read_state(path)["a"], state["a"])
    write_weights(path, state, {})
    assert torch.equal(read_state(path)["a"], state["a"])


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_a_truncated_file_is_refused_at_every_length(tmp_path, suffix):
    whole, path = tmp_path / f"whole{suffix}", tmp_path / f"cut{suffix}"
    state = {"a": torch.ones(50), "b": torch.ones(3)}
    write_weights(whole, state, {}) if suffix == ".safetensors" else torch.save(state, whole)
    data = whole.read_bytes()
    for length in {1, 5, 9, 20, len(data) // 2, len(data) - 1}:
        path.write_bytes(data[:length])
        fails(path, "expected")


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_random_bytes_are_refused_in_one_line(tmp_path, suffix):
    source, path = random.Random(0), tmp_path / f"noise{suffix}"
    for length in range(1, 120):
        path.write_bytes(source.randbytes(length))
        fails(path, "expected")


class Whole(nn.Linear):
    """A class of a user."""


@pytest.mark.parametrize(
    ("save", "named"),
    [
        (lambda model, path: torch.save(model, path), r"objects \([\w.]+\.Whole\), as in a whole model"),
        (
            lambda model, path: torch.save(model, path, _use_new_zipfile_serialization=False),
            r"objects \([\w.]+\.Whole\), as in a whole model",
        ),
        (lambda model, path: path.write_bytes(pickle.dumps(model)), "another format or objects, as in a whole model"),
        (
            lambda model, path: torch.save({"state_dict": model.state_dict(), "model": model}, path),
            r"objects \([\w.]+\.Whole\)",
        ),
        (lambda model, path: torch.jit.trace(model, torch.zeros(1, 2)).save(path), "a TorchScript archive"),
    ],
    ids=["zip", "old", "pickle", "checkpoint", "script"],
)
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_a_whole_model_is_refused_with_the_line_that_saves_its_weights(tmp_path, save, named):
    path = tmp_path / "whole.pt"
    save(Whole(2, 2), path)
    with pytest.raises(CheckpointError, match=f"expected a state dict; got {named}") as caught:
        read_state(path)
    assert 'torch.save(model.state_dict(), "weights.pt")' in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_pickle_is_refused_and_not_executed(tmp_path):
    for suffix in (".pt", ".pth", ".ckpt", ".safetensors"):
        path = tmp_path / f"evil{suffix}"
        path.write_bytes(pickle.dumps({"a": Evil()}))
        fails(path, "expected")
        torch.save({"a": Evil()}, path)
        fails(path, "expected")
    fails(path, "expected safetensors, got a pickle or PyTorch file", read_metadata)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (torch.ones(2), "expected named tensors, got a Tensor"),
        ({}, "expected named tensors, got an empty mapping"),
        ({"a": 3}, "expected named tensors, got a int under 'a'"),
        ({"state_dict": {"a": [1]}}, "expected named tensors, got a list under 'a'"),
        ({3: torch.ones(2)}, "expected named tensors, got a Tensor under 3"),
        ({"a": torch.tensor([float("inf"), -float("inf"), 1.0])}, "2 of 3 values of 'a' are not finite"),
        ({"a": torch.tensor([1.0, float("nan")])}, "1 of 2 values of 'a' are not finite"),
        ({"a": torch.tensor([float("inf")] * 2, dtype=torch.float16)}, "2 of 2 values of 'a' are not finite"),
    ],
)
def test_what_is_no_state_is_refused(tmp_path, content, message):
    torch.save(content, tmp_path / "w.pt")
    fails(tmp_path / "w.pt", message)


def test_names_and_shapes_that_do_not_fit_are_counted_and_the_model_stays(tmp_path):
    path, model = tmp_path / "w.safetensors", small(1)
    state = small(0, classes=4).state_dict()
    for key in [key for key in state if key.startswith("body.4")]:
        del state[key]
    write_weights(path, {**state, "extra": torch.ones(1)}, {})
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(CheckpointError) as error:
        load_weights(model, path)
    text = str(error.value)
    assert "\n" not in text
    assert "missing (body.4.0.branch.0.weight, body.4.0.branch.1.weight, " in text
    assert ", ...)" in text
    assert "1 unexpected (extra)" in text
    assert "2 of another shape (head.weight expects (3, 51), got (4, 51), head.bias expects (3,), got (4,))" in text
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_other_precisions_are_read_into_the_model_s_own(tmp_path):
    model = build(MODELS["linear"], (1, 2, 2), 2)
    write_weights(tmp_path / "w.safetensors", model.double().state_dict(), {})
    other = build(MODELS["linear"], (1, 2, 2), 2, seed=1)
    load_weights(other, tmp_path / "w.safetensors")
    assert other.head.weight.dtype == torch.float32
    torch.testing.assert_close(other.head.weight, model.head.weight.float())


def test_a_missing_counter_of_batch_norm_is_no_obstacle(tmp_path):
    old, new = (build(MODELS["allconv"], (3, 8, 8), 4, seed=seed) for seed in (0, 1))
    state = {name: tensor for name, tensor in old.state_dict().items() if "num_batches_tracked" not in name}
    write_weights(tmp_path / "old.safetensors", state, {})
    load_weights(new, tmp_path / "old.safetensors")
    assert all(torch.equal(new.state_dict()[name], tensor) for name, tensor in state.items())


def test_finite_weights_may_have_a_sum_that_is_none(tmp_path):
    state = {"a": torch.full((4,), torch.finfo(torch.float32).max), "b": torch.full((70_000,), 3.0).half()}
    write_weights(tmp_path / "a.safetensors", state, {})
    assert read_state(tmp_path / "a.safetensors").keys() == state.keys()
