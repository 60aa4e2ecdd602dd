"""Files that need more memory than they may are refused before they get it."""

import gzip
import io
import os
import struct
import tarfile
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

from holdfast import budget
from holdfast.budget import memory_budget, parse_bytes, require_budget
from holdfast.data import Folder, Npz
from holdfast.data.cifar import TEN
from holdfast.data.folder import read_picture
from holdfast.data.idx import read_pair
from holdfast.errors import CheckpointError, DataError, RecipeError
from holdfast.models import read_state
from tests.end_to_end.command import holdfast, refused
from tests.training.tiny import TEXT

MB = 10**6


@pytest.fixture(autouse=True)
def _ten_megabytes(monkeypatch):
    monkeypatch.setenv(budget.VARIABLE, "10M")


def test_the_budget_is_half_of_the_memory_or_what_the_user_says(monkeypatch):
    assert memory_budget() == 10 * MB
    monkeypatch.delenv(budget.VARIABLE)
    assert 0 < memory_budget() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2
    monkeypatch.setattr(budget, "_of_the_container", lambda: 6e9)
    monkeypatch.setattr(budget, "_physical", lambda: 8 * 10**9)
    assert memory_budget() == 3 * 10**9


@pytest.mark.parametrize(
    ("text", "size"), [("500", 500), ("8G", 8 * 10**9), (" 1.5 mb", 1_500_000), ("2k", 2000), ("1TiB", 10**12)]
)
def test_sizes_have_units(text, size):
    assert parse_bytes(text, "x") == size


@pytest.mark.parametrize("text", ["", "G", "-1", "1e9", "many", "8 G B", "9" * 400, "0." + "1" * 5000])
def test_other_sizes_are_refused(text):
    with pytest.raises(RecipeError, match="--max-bytes: expected a number of bytes such as 800M or 8G; got"):
        parse_bytes(text, "--max-bytes")


def test_the_message_names_need_budget_and_remedy():
    require_budget(10 * MB, "file")
    with pytest.raises(DataError) as caught:
        require_budget(7.6e9, "file")
    assert str(caught.value) == (
        "file: needs 7.6 GB of memory, more than the budget of 10 MB; allow more with `holdfast --max-bytes 8G ...` or "
        "HOLDFAST_MAX_BYTES"
    )


def test_where_the_machine_has_less_memory_no_budget_is_the_remedy(monkeypatch):
    monkeypatch.setattr(budget, "_physical", lambda: 8 * 10**9)
    with pytest.raises(DataError, match=r"file: needs 7\.9 GB of memory, .*; allow more with `holdfast --max-bytes 8G"):
        require_budget(7.9e9, "file")
    with pytest.raises(DataError) as caught:
        require_budget(9e9, "file", smaller="make the network smaller")
    assert str(caught.value) == (
        "file: needs 9 GB of memory, more than the budget of 10 MB and than all that this machine has, 8 GB; "
        "make the network smaller"
    )
    monkeypatch.setenv(budget.VARIABLE, "20G")  # swapping is the user's choice
    require_budget(9e9, "file")


def test_a_network_beyond_the_machine_is_to_be_made_smaller(tmp_path, monkeypatch):
    monkeypatch.setattr(budget, "_physical", lambda: 8 * 10**7)
    (tmp_path / "wide.yaml").write_text(TEXT.replace("hidden: [8]", "hidden: [20000, 20000]"))
    line = refused("train", "wide.yaml", cwd=tmp_path)
    assert "model: the network: needs 1.6" in line
    assert line.endswith("; make the network smaller")
    assert "--max-bytes" not in line


@pytest.mark.parametrize("argv", [["list", "attacks"], ["show", "tiny.yaml"], ["data", "list"], ["run", "tiny.yaml"]])
def test_every_command_refuses_a_budget_that_is_no_size(tmp_path, monkeypatch, argv):
    (tmp_path / "tiny.yaml").write_text(TEXT)
    monkeypatch.setenv(budget.VARIABLE, "lots")
    line = refused(*argv, cwd=tmp_path)
    assert "HOLDFAST_MAX_BYTES: expected a number of bytes such as 800M or 8G; got 'lots'" in line
    monkeypatch.setenv(budget.VARIABLE, "1G")
    assert holdfast(*argv[:1], "--help", cwd=tmp_path).code == 0


def archive(path, **arrays):
    np.savez_compressed(path, **arrays)
    return path


def test_an_archive_that_inflates_is_refused_by_its_headers(tmp_path):
    path = archive(tmp_path / "a.npz", x_test=np.zeros((20_000, 28, 28), np.uint8), y_test=np.zeros(20_000, np.int64))
    assert path.stat().st_size < MB / 10
    with pytest.raises(DataError, match=r"a\.npz: needs 15.8 MB of memory"):
        Npz(path=str(path))()


def test_a_header_that_promises_more_than_the_archive_holds_is_damage(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (10**12, 28, 28)})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as members:
        members.writestr("x_test.npy", header.getvalue() + b"0" * 100)
    with pytest.raises(
        DataError, match=r"x_test: expected an array; got 100 bytes, which shape \(1000000000000, 28, 28\)"
    ):
        Npz(path=str(tmp_path / "a.npz"))()


def test_compressed_idx_files_are_read_as_far_as_they_fit(tmp_path):
    images = struct.pack(">4B3I", 0, 0, 8, 3, 20_000, 28, 28) + bytes(20_000 * 784)
    (tmp_path / "t-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
    with pytest.raises(DataError, match=r"t-images-idx3-ubyte\.gz: needs 1\d(\.\d)? MB of memory"):
        read_pair(tmp_path, "t")


def test_small_files_are_read_however_large_the_budget_is(tmp_path, monkeypatch):
    monkeypatch.setenv(budget.VARIABLE, "100T")
    assert budget.decompressed(gzip.compress(b"small"), "x") == b"small"


def test_arrays_without_the_suffix_and_deflated_weights_count_too(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as members:
        array = io.BytesIO()
        np.save(array, np.zeros((20_000, 28, 28), np.uint8))
        members.writestr("x_test", array.getvalue())
    with pytest.raises(DataError, match=r"a\.npz: needs 15\.7 MB of memory"):
        Npz(path=str(tmp_path / "a.npz"))()
    torch.save({"a": torch.zeros(4 * MB)}, tmp_path / "plain.pt")
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(tmp_path / "a.pt", "w", zipfile.ZIP_DEFLATED) as small,
    ):
        for name in plain.namelist():
            small.writestr(name, plain.read(name))
    assert (tmp_path / "a.pt").stat().st_size < 100_000
    with pytest.raises(CheckpointError, match=r"a\.pt: needs 16 MB of memory"):
        read_state(tmp_path / "a.pt")


def test_members_of_an_archive_are_ordinary_files_that_fit(tmp_path):
    with tarfile.open(tmp_path / TEN.archive, "w:gz") as members:
        entry = tarfile.TarInfo(f"{TEN.folder}/{TEN.test[0]}")
        entry.size = 20 * MB
        members.addfile(entry, io.BytesIO(bytes(20 * MB)))
        link = tarfile.TarInfo(f"{TEN.folder}/{TEN.train[0]}")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        members.addfile(link)
    with pytest.raises(DataError, match=r"test_batch\.bin: needs 40 MB of memory"):
        TEN.read(tmp_path, TEN.test, 0)
    with pytest.raises(DataError, match=r"data_batch_1\.bin: expected a file"):
        TEN.read(tmp_path, TEN.train[:1], 0)


@pytest.mark.parametrize("suffix", [".png", ".bmp"])
def test_a_picture_of_too_many_pixels_is_refused_by_its_header(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    Image.new("L", (2000, 2000)).save(path)
    with pytest.raises(DataError, match=r"2000 x 2000 pixels: needs 64 MB of memory"):
        read_picture(path, "RGB")


def test_a_picture_that_scaling_would_blow_up_is_refused(tmp_path):
    Image.new("L", (1, 5000)).save(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"a\.png: expected sides at most 1 : 100, got \(1, 5000\)"):
        read_picture(tmp_path / "a.png", "RGB")


def test_a_file_of_another_format_is_no_image_whatever_its_name_says(tmp_path):
    (tmp_path / "1.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(touch ran) system\n")
    with pytest.raises(DataError, match=r"1\.png: expected an image, cannot be read: cannot identify image file"):
        read_picture(tmp_path / "1.png", "RGB")


def test_images_of_a_folder_stay_in_it(tmp_path):
    (tmp_path / "data/cat").mkdir(parents=True)
    for name in ("data/cat/1.png", "private.png"):
        Image.new("L", (8, 8)).save(tmp_path / name)
    (tmp_path / "data/cat/2.png").symlink_to(tmp_path / "data/cat/1.png")
    assert len(Folder(path=str(tmp_path / "data"))().test) == 2  # a link inside is fine
    (tmp_path / "data/cat/3.png").symlink_to(tmp_path / "private.png")
    with pytest.raises(DataError, match=r"3\.png: expected an image file, got a link that leads out of the directory"):
        Folder(path=str(tmp_path / "data"))()
    (tmp_path / "data/cat/3.png").unlink()
    os.mkfifo(tmp_path / "data/cat/4.png")
    with pytest.raises(DataError, match=r"4\.png: expected an image file, got a special file"):
        Folder(path=str(tmp_path / "data"))()
    (tmp_path / "data/cat/4.png").unlink()
    (tmp_path / "outside").mkdir()
    (tmp_path / "private.png").rename(tmp_path / "outside/private.png")
    (tmp_path / "data/dog").symlink_to(tmp_path / "outside")
    with pytest.raises(DataError, match=r"private\.png: expected an image file, got a link that leads out"):
        Folder(path=str(tmp_path / "data"))()


def test_many_images_have_one_budget(tmp_path):
    (tmp_path / "cat").mkdir()
    for number in range(20):
        Image.new("RGB", (500, 500)).save(tmp_path / f"cat/{number}.png")
    with pytest.raises(DataError, match="20 images: needs 30 MB of memory"):
        Folder(path=str(tmp_path))()


def test_tensors_that_repeat_their_values_are_refused(tmp_path):
    torch.save({"a": torch.zeros(1).expand(10**9)}, tmp_path / "a.pt")
    assert (tmp_path / "a.pt").stat().st_size < 3000
    with pytest.raises(CheckpointError, match="'a' repeats a few that it holds"):
        read_state(tmp_path / "a.pt")
    torch.save({"a": torch.zeros(4 * MB)}, tmp_path / "b.pt")
    with pytest.raises(CheckpointError, match=r"b\.pt: needs 16 MB of memory"):
        read_state(tmp_path / "b.pt")
    torch.save({"a": torch.eye(3).to_sparse()}, tmp_path / "c.pt")
    with pytest.raises(CheckpointError, match=r"expected dense tensors, got torch\.sparse_coo under 'a'"):
        read_state(tmp_path / "c.pt")


def test_the_command_line_sets_the_budget_for_its_workers_too(tmp_path, monkeypatch):
    path = archive(tmp_path / "a.npz", x_test=np.zeros((3000, 8, 8), np.uint8), y_test=np.zeros(3000, np.int64))
    (tmp_path / "r.yaml").write_text(f"data: {{npz: {path}}}\nmodel: linear\n")
    line = refused("--max-bytes", "100k", "run", "r.yaml", cwd=tmp_path)
    assert "a.npz: needs 216 kB of memory, more than the budget of 100 kB" in line
    assert "--max-bytes: expected a number of bytes" in refused("--max-bytes", "lots", "show", "r.yaml", cwd=tmp_path)
