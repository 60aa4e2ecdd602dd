"""Weights on disk: safetensors to write, safetensors or PyTorch's own files to read, never an arbitrary pickle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor, nn

from holdfast import files
from holdfast.budget import require_budget
from holdfast.errors import CheckpointError
from holdfast.models.logits import LogitsOf
from holdfast.models.network import Normalised
from holdfast.models.pytorch_file import damaged, from_torch

TORCH_SUFFIXES = (".pt", ".pth", ".ckpt")
"""Usual suffixes of PyTorch's files."""
NESTED = ("state_dict", "model_state_dict", "model", "net")
"""Keys under which training scripts store the weights in a checkpoint."""
OPTIONAL = "num_batches_tracked"
"""A counter of BatchNorm that older files lack and evaluation does not use."""
DTYPES = frozenset(
    (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    )
)
"""Formats of numbers that weights may have."""
PREFIXES = ("module.", "_orig_mod.", "model.")
"""Prefixes that wrappers (data parallel, compile, Lightning) put before every name."""


def read_state(path: str | Path) -> dict[str, Tensor]:
    """The named tensors of a weights file, without the prefixes of wrappers.

    Args:
        path: a file in the format of safetensors, or one of PyTorch that holds only tensors and plain values. The
            content decides, not the suffix.

    Raises:
        CheckpointError: the file is missing, damaged, of another format or has a value that is not finite.
    """
    return _unwrapped(_read(Path(path)))


def load_weights(model: nn.Module, path: str | Path) -> None:
    """Copy the weights of a file into a model; every name and shape must fit.

    Weights of a bare network fit a network behind `normalised` or `LogitsOf` as well.

    Raises:
        CheckpointError: as `read_state`, or names or shapes differ; the model is then unchanged.
    """
    copy_weights(model, read_tensors(path), str(path))


def copy_weights(model: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    """Copy named tensors into a model; see `load_weights`.

    Args:
        model: the model.
        state: its tensors, as `read_tensors` returns them.
        where: their file, for messages.
    """
    model, fitting = _fitted(model, dict(state), where)
    model.load_state_dict(fitting)


def require_fitting(model: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    """Refuse tensors that are not those of a model, which may be without values; see `copy_weights`."""
    _fitted(model, dict(state), where)


def read_tensors(path: str | Path) -> dict[str, Tensor]:
    """The named tensors of a weights file as it names them; see `read_state`."""
    return _read(Path(path))


def _fitted(model: nn.Module, state: dict[str, Tensor], where: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """The part of a model that tensors are meant for, and its whole state with them."""
    bare = _unwrapped(state)
    if isinstance(model, Normalised) and not any(name.startswith("normalise.") for name in bare):
        model = model.network
    if isinstance(model, LogitsOf) and (state.keys() | bare.keys()) & model.network.state_dict().keys():
        model = model.network
    wanted = model.state_dict()
    if len(bare.keys() & wanted.keys()) > len(state.keys() & wanted.keys()):
        state = bare
    problems = _differences(wanted, state)
    if problems:
        raise CheckpointError(f"{where}: weights do not fit the model: {'; '.join(problems)}")
    return model, {**wanted, **state}


def write_weights(path: str | Path, state: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write named tensors as safetensors, whole or not at all.

    Tensors that share memory are written once for each name.

    Raises:
        CheckpointError: the file cannot be written.
    """
    path = Path(path)
    files.remove_temporary(path.parent)
    try:
        files.write_checked(path, to_safetensors(state, metadata))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot write weights: {error.strerror}") from error


def to_safetensors(state: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """Named tensors as the content of a file; see `write_weights`."""
    tensors = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in state.items()}
    return save(tensors, metadata=dict(metadata))


def read_metadata(path: str | Path) -> dict[str, str]:
    """The metadata of a safetensors file, which has its checksum verified first.

    Raises:
        CheckpointError: the file is missing, damaged or changed, or is not safetensors.
    """
    path = Path(path)
    _check_file(path)
    _check_safetensors(path)
    files.require_unchanged(path, error=CheckpointError, follow=True)
    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise damaged(path, "safetensors", error) from error


def _read(path: Path) -> dict[str, Tensor]:
    _check_file(path)
    is_torch = _looks_like_torch(path)
    data = files.read_checked(path, error=CheckpointError, follow=True)
    state = _tensors(path, from_torch(path, data) if is_torch else _from_safetensors(path, data))
    _check_finite(path, state)
    return state


def _looks_like_torch(path: Path) -> bool:
    """Whether a file begins like those of PyTorch, whatever its suffix; the suffix decides unclear cases.

    Raises:
        CheckpointError: if neither decides.
    """
    start = _start(path)
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") < path.stat().st_size:
        return False
    if start[:2] == b"PK" or start[:1] == b"\x80" or path.suffix in TORCH_SUFFIXES:
        return True
    if path.suffix != ".safetensors":
        raise CheckpointError(f"{path}: expected safetensors or a state dict saved by PyTorch, got another format")
    return False


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(9)


def _check_file(path: Path) -> None:
    try:
        if path.is_dir():
            raise CheckpointError(f"{path}: expected a weights file, got a directory")
        if not path.is_file():
            raise CheckpointError(f"{path}: expected a weights file, there is none")
        size = path.stat().st_size
    except (OSError, ValueError) as error:  # a name that is too long, or has a zero in it
        reason = error.strerror if isinstance(error, OSError) else error
        raise CheckpointError(f"{str(path)[:200]!r}: expected a weights file; {reason}") from None
    if size == 0:
        raise CheckpointError(f"{path}: expected a weights file, got an empty file")


def _check_safetensors(path: Path) -> None:
    """Refuse a PyTorch file by name; a safetensors file begins with the length of its header and then a brace."""
    start = _start(path)
    if start[8:9] != b"{" and (start[:2] == b"PK" or start[:1] == b"\x80"):
        raise CheckpointError(
            f"{path}: expected safetensors, got a pickle or PyTorch file; --model and --weights take it"
        )


def _from_safetensors(path: Path, data: bytes) -> dict[str, Tensor]:
    _check_safetensors(path)
    try:
        tensors: dict[str, Tensor] = load(data)
    except SafetensorError as error:
        raise damaged(path, "safetensors", error) from error
    return tensors


def _tensors(path: Path, content: object) -> dict[str, Tensor]:
    while isinstance(content, Mapping):
        inner = next((content[key] for key in NESTED if isinstance(content.get(key), Mapping)), None)
        if inner is None:
            break
        content = inner
    if not isinstance(content, Mapping) or not content:
        raise CheckpointError(f"{path}: expected named tensors, got {_kind(content)}")
    state: dict[str, Tensor] = {}
    total = 0
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise CheckpointError(f"{path}: expected named tensors, got {_kind(value)} under {name!r}")
        if value.layout != torch.strided or value.is_quantized:
            raise CheckpointError(f"{path}: expected dense tensors, got {value.layout} under {name!r}")
        if value.dtype not in DTYPES or value.device.type != "cpu":
            raise CheckpointError(
                f"{path}: expected numbers in a usual format, got {value.dtype} on {value.device} under {name!r}"
            )
        size = value.numel() * value.element_size()
        if size > value.untyped_storage().nbytes():
            raise CheckpointError(f"{path}: expected all values of every tensor; '{name}' repeats a few that it holds")
        state[name], total = value, total + size
    require_budget(total, str(path), error=CheckpointError)
    return state


def _check_finite(path: Path, state: Mapping[str, Tensor]) -> None:
    for name, tensor in state.items():
        if not tensor.is_floating_point() or bool(tensor.sum().isfinite()):  # as no sum with another value is
            continue
        if bad := int((~torch.isfinite(tensor)).sum()):  # finite values may have an infinite sum
            raise CheckpointError(f"{path}: {bad} of {tensor.numel()} values of '{name}' are not finite")


def _unwrapped(state: dict[str, Tensor]) -> dict[str, Tensor]:
    for prefix in PREFIXES:
        if all(name.startswith(prefix) for name in state):
            return _unwrapped({name.removeprefix(prefix): tensor for name, tensor in state.items()})
    return state


def _differences(wanted: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> list[str]:
    shapes = [
        f"{name} expects {tuple(tensor.shape)}, got {tuple(state[name].shape)}"
        for name, tensor in wanted.items()
        if name in state and tensor.shape != state[name].shape
    ]
    differences = {
        "missing": [name for name in wanted if name not in state and not name.endswith(OPTIONAL)],
        "unexpected": [name for name in state if name not in wanted],
        "of another shape": shapes,
    }
    return [f"{len(names)} {what} ({_first(names)})" for what, names in differences.items() if names]


def _first(names: Iterable[str], count: int = 8) -> str:
    names = list(names)
    return ", ".join(names[:count]) + (", ..." if len(names) > count else "")


def _kind(value: Any) -> str:
    if isinstance(value, Mapping) and not value:
        return "an empty mapping"
    return f"a {type(value).__name__}"
