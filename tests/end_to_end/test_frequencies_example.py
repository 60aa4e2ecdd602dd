"""The example of frequencies: what it draws; and what a run with such checks reports."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from holdfast import load_run
from holdfast.results.band_drops import band_drops
from tests.end_to_end.command import good

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("frequencies", ROOT / "examples" / "frequencies.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


RECIPE = """
name: tiny
data: {source: digits, subset: 200, test_subset: 30, augment: [{energy_filter: {share: 0.5}}]}
model: linear
train: {epochs: 2, batch_size: 20, optimizer: {sgd: {lr: 0.5}}}
checks:
  - clean
  - band_noise: {band: {each: [0, 2]}, bands: 3, variance: 1, draw: {each: [0, 1]}}
  - low_pass: {share: 0.7, clip: false}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("bands")
    (path / "tiny.yaml").write_text(RECIPE)
    good("run", "tiny.yaml", cwd=path)
    return path / "runs" / "tiny" / "seed-0"


def call(example, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["frequencies.py", *map(str, arguments)])
    example.main()


def test_the_page_shows_an_image_in_all_changes(example, tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.html"
    call(example, monkeypatch, page, "--index", 3)
    assert capsys.readouterr().out == f"page: {page}\n"
    text = page.read_text(encoding="utf-8")
    # The image with two spectra; two filters at five shares with difference and mask; noise and mask of ten bands.
    assert text.count("data:image/png;base64,") == 3 + 2 * 5 * 3 + 2 * 10


def test_what_each_band_takes_is_in_the_report_and_on_the_terminal(run):
    drops = band_drops(load_run(run).ledger)
    assert drops["band"].to_list() == [0, 2]
    assert drops["draws"].to_list() == [2, 2]
    assert drops["examples"].to_list() == [30, 30]
    assert drops["drop"][0] > drops["drop"][1] > -0.2  # a digit is in its low frequencies
    printed = good("report", run, "--show", "band-noise", cwd=run)
    text = (run.parent / "report.html").read_text(encoding="utf-8")
    for row in drops.iter_rows(named=True):
        (line,) = [line for line in printed.splitlines() if line.split()[:1] == [str(row["band"])]]
        assert line.split()[1] == f"{100 * row['drop']:z.1f}"
        assert f">{100 * row['drop']:z.1f}<" in re.sub(r"\s+", "", text)
    spectra = good("report", run, "--show", "spectra", cwd=run)
    (line,) = [line for line in spectra.splitlines() if "band_noise band=2 bands=3 variance=1 draw=1" in line]
    assert line.split()[-6:] == ["0.0", "%", "0.0", "%", "100.0", "%"]


def test_an_image_that_is_not_there_is_refused(example, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        call(example, monkeypatch, "--index", 100000)
    assert "--index: expected 0 to" in capsys.readouterr().err
