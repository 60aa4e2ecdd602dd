"""Changes that keep a file of some format whole: its checksums and lengths fit, what they are about does not."""

import gzip
import io
import json
import struct
import tarfile
import zipfile

import torch
import yaml

from tests.fuzz.mutations import HOSTILE, damaged, edited, respelled, with_length


def yaml_edited(content, draw, _):
    """A YAML text with a value changed."""
    tree = yaml.safe_load(content)
    for _ in range(draw.choice((1, 1, 2, 4))):
        tree = edited(tree, draw, YAML_VALUES)
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True).encode("utf-8", "surrogatepass")


YAML_VALUES = (*(value for value in HOSTILE if value != 10**5000), 10**4000, "8/255", "1/0", "pgd", "linf", ".nan")


def gzip_edited(content, draw, seeds):
    """A compressed file whose content is damaged."""
    inner = gzip.decompress(content)
    if draw.random() < 0.02:
        return gzip.compress(inner + bytes(100_000_000), 1)
    return gzip.compress(damaged(inner, draw, [gzip.decompress(seed) for seed in seeds]), 1)


def tar_edited(content, draw, seeds):
    """An archive, compressed or not, whose blocks are damaged, headers more often than data."""
    inner = bytearray(gzip.decompress(content))
    blocks = [at for at in range(0, len(inner), 512) if inner[at + 257 : at + 262] == b"ustar"]
    if draw.random() < 0.3 or not blocks:
        return gzip.compress(damaged(inner, draw, [bytes(inner)]), 1)
    at = draw.choice(blocks)
    name, field = draw.choice(((124, 12), (156, 1), (0, 100), (157, 100), (345, 155), (100, 8), (257, 8)))
    block = draw.choice(
        (
            b"7" * field,
            b"\x80" + b"\xff" * (field - 1),
            b"-1",
            b"",
            b"/etc/passwd",
            b"5",
            b"S",
            b"x",
            b"L",
            b"1",
            draw.randbytes(field),
        )
    )
    inner[at + name : at + name + field] = block[:field].ljust(field, b"\0")
    inner[at + 148 : at + 156] = b" " * 8
    inner[at + 148 : at + 156] = f"{sum(inner[at : at + 512]):06o}\0 ".encode()
    return gzip.compress(bytes(inner), 1)


def zip_edited(content, draw, seeds, inner=damaged):
    """An archive with a member damaged, renamed, doubled or dropped."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    at, way = draw.randrange(len(members)), draw.random()
    name, data = members[at]
    if way < 0.7:
        members[at] = name, inner(data, draw, [data for _, data in members])
    elif way < 0.8:
        members.append((name, draw.choice(members)[1]))
    elif way < 0.9:
        members[at] = draw.choice(("", "a", "../a", "x_test.npy", "y_train.npy", "\0", name + "/", "a" * 60000)), data
    else:
        del members[at]
    target, kind = (
        io.BytesIO(),
        draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)),
    )
    with zipfile.ZipFile(target, "w", kind) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, kind)
    return target.getvalue()


def safetensors_edited(content, draw, seeds):
    """Named tensors whose header says something else."""
    length = struct.unpack("<Q", content[:8])[0]
    header, data = content[8 : 8 + length], content[8 + length :]
    if draw.random() < 0.3:
        return with_length(respelled(header, draw, [header]), data)
    tree = json.loads(header)
    metadata = tree.get("__metadata__")
    if metadata and draw.random() < 0.6:
        name = draw.choice(sorted(metadata))
        metadata[name] = draw.choice((_other_text, _json_inside, _yaml_inside))(metadata[name], draw)
    else:
        values = (
            *HOSTILE,
            "F64",
            "F16",
            "BF16",
            "I64",
            "BOOL",
            "F8_E4M3",
            "U8",
            [0, 2**62],
            [2**32, 2**32],
            [2**60],
            [0] * 30,
        )
        tree = edited(tree, draw, values)
    return with_length(json.dumps(tree).encode("utf-8", "surrogatepass"), data)


def _other_text(text, draw):
    return respelled(text.encode(), draw, [text.encode()]).decode("utf-8", "replace")


def _json_inside(text, draw):
    return json.dumps(edited(json.loads(text), draw))


def _yaml_inside(text, draw):
    return yaml_edited(text.encode(), draw, []).decode("utf-8", "replace")


def _tensors():
    zero = torch.zeros(2, 3)
    yield from (
        torch.zeros(0),
        torch.tensor(1.0),
        zero,
        zero.to_sparse(),
        zero.to_sparse_csr(),
        zero.to(torch.complex64),
        zero.long(),
    )
    yield from (
        zero.bool(),
        zero.half(),
        zero.bfloat16(),
        torch.full((3,), torch.nan),
        zero.expand(5, 2, 3),
        zero.T,
        torch.nn.Parameter(zero),
    )
    yield from (
        torch.quantize_per_tensor(zero, 0.1, 0, torch.quint8),
        torch.zeros(1).expand(10**9),
        zero.to("meta"),
        zero.to(torch.float8_e4m3fn),
    )
    yield torch.empty_strided((2, 2), (0, 1))


def torch_edited(content, draw, seeds):
    """A file of PyTorch with another value in it."""
    tree = _plain(torch.load(io.BytesIO(content), weights_only=True))
    values = (*HOSTILE, *_tensors(), (1, 2), {1: 2}, {None: 1}, torch.Size([2]), torch.float16, b"a")
    for _ in range(draw.choice((1, 1, 2))):
        tree = edited(tree, draw, values)
    buffer = io.BytesIO()
    torch.save(tree, buffer, _use_new_zipfile_serialization=draw.random() < 0.8)
    return buffer.getvalue()


def _plain(tree):
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    return [_plain(value) for value in tree] if isinstance(tree, list | tuple) else tree


def tar_of(members):
    """A compressed archive of files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()
