"""The same for arrays, tables and pictures."""

import io
import struct
import zlib

import numpy as np
import polars as pl
from PIL import Image

from tests.fuzz.formats import zip_edited
from tests.fuzz.mutations import EXTREMES, damaged, respelled

DTYPES = (
    "|u1",
    "<f4",
    ">f8",
    "<f2",
    "<i8",
    ">i2",
    "|b1",
    "<c8",
    "|S3",
    "<U4",
    "<U1000000000",
    "|V8",
    "|O",
    "<M8[s]",
    "|V0",
    "<f16",
    "x",
    "",
    "<U0",
)
SHAPES = (
    "()",
    "(0,)",
    "(1,)",
    "(-1,)",
    "(4, 8, 8)",
    "(2**40,)",
    "(1099511627776, 28, 28)",
    "(4, 0, 8)",
    "(1.5,)",
    "('a',)",
    "(True,)",
    "(9" + "9" * 5000 + ",)",
    "(1,) * 70",
)
ARRAYS = (
    np.zeros(0),
    np.zeros(()),
    np.zeros((4, 8, 8)),
    np.full((4, 8, 8), np.nan),
    np.zeros((4, 8, 8), np.complex64),
    np.zeros(4, np.int64),
    np.full(4, -1),
    np.full(4, 2**31),
    np.full(4, 2**63 - 1),
    np.full(4, 2**64 - 1, np.uint64),
    np.array(["a"] * 4),
    np.array("\ud800"),
    np.array(["\0"] * 4),
    np.zeros(4, "M8[s]"),
    np.zeros(4, [("a", "f4")]),
    np.zeros(4, bool),
    np.zeros((4, 1) + (1,) * 20),
    np.zeros(4, np.float16),
    np.zeros((4, 8, 8), ">f4"),
    np.array(b"a"),
    np.zeros(4, "V3"),
    np.full(4, np.inf),
    np.zeros((4, 0, 8), np.uint8),
)


def npy_edited(content, draw, seeds):
    """An array whose header says something else."""
    if draw.random() < 0.3:
        buffer = io.BytesIO()
        np.save(buffer, draw.choice(ARRAYS), allow_pickle=False)
        return buffer.getvalue()
    length = struct.unpack("<H", content[8:10])[0]
    header, data = content[10 : 10 + length].decode("latin1"), content[10 + length :]
    fields = (
        eval(header, {}) if header.startswith("{'descr'") else {"descr": "|u1", "shape": (1,), "fortran_order": False}
    )
    texts = {name: repr(value) for name, value in fields.items()}
    name = draw.choice(("descr", "shape", "shape", "fortran_order"))
    texts[name] = draw.choice(
        {
            "descr": [*map(repr, DTYPES), "[('a', '<f4')]", "1", "[('a', '|O')]"],
            "shape": SHAPES,
            "fortran_order": ["True", "1", "None"],
        }[name]
    )
    text = "{" + ", ".join(f"'{name}': {value}" for name, value in texts.items()) + "}"
    text = draw.choice(
        (
            text,
            text,
            text,
            "{" * 300,
            "(" * 5000,
            text + "#" * 20000,
            respelled(text.encode(), draw, [header.encode()]).decode("latin1"),
        )
    )
    header = text.encode("latin1", "replace") + b"\n"
    version = draw.choice((b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    size = struct.pack("<H", len(header) % 65536) if version == b"\x01\x00" else struct.pack("<I", len(header))
    return b"\x93NUMPY" + version + size + header + data


def npz_edited(content, draw, seeds):
    """An archive of arrays, one of which is another."""
    return zip_edited(content, draw, seeds, npy_edited)


WAV_FIELDS = ((4, "<I"), (16, "<I"), (20, "<H"), (22, "<H"), (24, "<I"), (32, "<H"), (34, "<H"), (40, "<I"))
"""Where the numbers of a header are, and their kinds."""


def wav_edited(content, draw, seeds):
    """A sound whose header says something else."""
    at, kind = draw.choice(WAV_FIELDS)
    size = struct.calcsize(kind)
    number = draw.choice((0, 1, 2, 3, 7, 8, 24, 255, 65534, 2 ** (8 * size - 1), 2 ** (8 * size) - 1))
    return content[:at] + struct.pack(kind, number) + content[at + size :]


COLUMNS = (
    pl.Null,
    pl.Int8,
    pl.Int32,
    pl.Int64,
    pl.UInt64,
    pl.Float32,
    pl.Float64,
    pl.String,
    pl.Binary,
    pl.Boolean,
    pl.Date,
    pl.Datetime,
    pl.Categorical,
    pl.List(pl.Int64),
    pl.List(pl.List(pl.String)),
    pl.Struct({"a": pl.Int64}),
    pl.Array(pl.Int64, 3),
    pl.Decimal(10, 2),
    pl.Int128,
    pl.Struct({}),
)


def parquet_edited(content, draw, seeds):
    """A table with another column, or written in another way."""
    frame = pl.read_parquet(io.BytesIO(content))
    name, way = draw.choice(frame.columns or ["a"]), draw.random()
    if way < 0.5 and frame.columns:
        frame = frame.with_columns(_column(name, len(frame), draw))
    elif way < 0.6 and frame.columns:
        frame = frame.rename({name: draw.choice(("", "b", "\0", "é", "x" * 3000))})
    elif way < 0.7 and frame.columns:
        frame = frame.drop(name)
    elif way < 0.8:
        frame = frame.with_columns(_column(draw.choice(("", "c", "x" * 3000)), len(frame), draw))
    elif way < 0.9:
        frame = pl.concat([frame] * draw.choice((0, 2, 50))) if frame.columns and way > 0.82 else frame.clear()
    buffer = io.BytesIO()
    codec = draw.choice(("zstd", "snappy", "gzip", "lz4", "brotli", "uncompressed"))
    frame.write_parquet(
        buffer, compression=codec, row_group_size=draw.choice((None, 1)), data_page_size=draw.choice((None, 1))
    )
    return buffer.getvalue()


def _column(name, rows, draw):
    kind = draw.choice(COLUMNS)
    if draw.random() < 0.5:
        return pl.Series(name, [None] * rows, dtype=kind)
    values = draw.choice(
        (
            [0],
            [-1],
            [2**31 - 1],
            [1.5],
            [float("nan")],
            [float("inf")],
            ["a"],
            ["\0"],
            ["x" * 5000],
            ["{}"],
            ["[" * 5000],
            ['{"threat": 1}'],
            [[None]],
            [True],
        )
    )
    return pl.Series(name, values * rows, strict=False).cast(
        draw.choice((kind, pl.Series(values, strict=False).dtype)), strict=False
    )


def png_edited(content, draw, seeds):
    """A picture with another chunk whose checksum fits."""
    chunks, at = [], 8
    while at + 8 <= len(content):
        (size,) = struct.unpack(">I", content[at : at + 4])
        chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + size]))
        at += 12 + size
    at = draw.randrange(len(chunks))
    kind, data = chunks[at]
    if kind == b"IHDR" and draw.random() < 0.7:
        sizes = [draw.choice((*EXTREMES[:11], 8)) % 2**32 for _ in range(2)]
        data = struct.pack(">II", *sizes) + bytes(
            [draw.choice((1, 2, 4, 8, 16, 255)), draw.randrange(8), 0, 0, draw.randrange(3)]
        )
    elif kind == b"IDAT" and draw.random() < 0.2:
        data = zlib.compress(bytes(50_000_000), 1)
    else:
        data = damaged(data, draw, [data or b"a"])
    chunks[at] = draw.choice((kind, kind, kind, b"zTXt", b"iCCP", b"eXIf", b"acTL", b"fcTL", b"PLTE", b"tRNS")), data
    parts = [struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks]
    return content[:8] + b"".join(parts)


def picture_redrawn(content, draw, seeds):
    """A picture of another mode, size or format."""
    mode = draw.choice(("1", "L", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F", "LA", "YCbCr"))
    size = draw.choice(((8, 8), (1, 1), (1, 3000), (9, 8), (300, 300), (2000, 1500)))
    buffer = io.BytesIO()
    Image.new(mode, size).save(
        buffer, draw.choice(("PNG", "JPEG", "BMP", "PPM", "TIFF", "WEBP", "GIF", "ICO", "EPS", "PDF"))
    )
    return buffer.getvalue()


def mat_edited(content, draw, seeds):
    """A file of MATLAB with one compressed element damaged."""
    parts, at = [], 128
    while at + 8 <= len(content):
        kind, size = struct.unpack("<II", content[at : at + 8])
        parts.append((kind, content[at + 8 : at + 8 + size]))
        at += 8 + size
    at = draw.randrange(len(parts))
    kind, data = parts[at]
    inner = damaged(zlib.decompress(data) if kind == 15 else data, draw, [data])
    parts[at] = (15, zlib.compress(inner, 1)) if draw.random() < 0.8 else (14, inner)
    return content[:128] + b"".join(struct.pack("<II", kind, len(data)) + data for kind, data in parts)


def idx_edited(content, draw, _):
    """An IDX file with other sizes."""
    at = draw.randrange(0, 16, 4)
    return content[:at] + struct.pack(">I", draw.choice(EXTREMES) % 2**32) + content[at + 4 :]
