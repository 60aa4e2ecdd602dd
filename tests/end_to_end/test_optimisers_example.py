"""The example of optimisers on the linear problem: what it prints and draws."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "optimisers.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("optimisers", ROOT / "examples" / "optimisers.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_the_table_of_the_documentation_is_that_of_the_example(example):
    """docs/optimisers.md shows where the optimisers end after 3,000 steps with gradients of the population."""
    _, spatial, _, frequencies, *_ = example.tables(3000)
    for (name, cells), (_, others) in zip(spatial.rows, frequencies.rows, strict=True):
        shown = [cells[i].text for i in (2, 3, 6)] + [others[i].text for i in (2, 6)]
        assert f"| {name} | {' | '.join(shown)} |" in PAGE


def test_the_code_of_the_documentation_prints_what_it_says(capsys):
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(code, "docs/optimisers.md", "exec"), {})
    printed = [float(number) for number in re.findall(r"-?\d+\.\d+", capsys.readouterr().out.replace("float64", ""))]
    expected = [
        float(x)
        for line in code.splitlines()
        if "print" in line
        for x in re.findall(r"-?\d\.\d+", line.partition("#")[2])
    ]
    assert len(printed) == len(expected) == 6
    assert printed == pytest.approx(expected, abs=6e-4)


def test_the_page_and_the_tables_are_written(example, tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.html"
    monkeypatch.setattr(sys, "argv", ["optimisers.py", str(page), "--steps", "30", "--samples", "10"])
    example.main()
    printed = capsys.readouterr().out
    assert printed.index("Spatial domain, 30 steps") < printed.index("Frequency domain") < printed.index("impossible")
    text = page.read_text(encoding="utf-8")
    assert text.count('id="chart-') == 7
    assert "Partition R, slope 1" in text
    assert "var(--" not in text[text.index("<h2>Risk") :]  # the script before it has colours of its own


def test_samples_have_a_seed(example, tmp_path, monkeypatch, capsys):
    def ends(*options):
        monkeypatch.setattr(sys, "argv", ["optimisers.py", str(tmp_path / "p.html"), "--steps", "20", *options])
        monkeypatch.setattr(example, "page", lambda *args: "")
        example.main()
        return capsys.readouterr().out

    assert ends("--samples", "3") == ends("--samples", "3", "--seed", "0") != ends("--samples", "3", "--seed", "1")


@pytest.mark.parametrize("options", [["--steps", "0"], ["--samples", "-1"]])
def test_bad_input_is_refused(example, monkeypatch, capsys, options):
    monkeypatch.setattr(sys, "argv", ["optimisers.py", *options])
    with pytest.raises(SystemExit):
        example.main()
    assert "expected steps of at least 1" in capsys.readouterr().err
