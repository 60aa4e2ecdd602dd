"""The example of linear regression: what it prints and draws."""

import importlib.util
import sys
from pathlib import Path

import pytest

from holdfast.theory.linear_regression import expected_attacked_loss

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("linear_regression", ROOT / "examples" / "linear_regression.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_plain_descent_is_open_ridge_is_biased_and_the_exact_regulariser_is_neither(example):
    found = example.descents(example.Setting(dimensions=30, steps=120))
    plain, ridge, exact, fixed = (found[name] for name in found)
    assert float(plain.population[-1]) < 1e-12
    assert float(plain.attacked[-1]) == pytest.approx(0.5 * (0.1 * float(plain.weights[0, 1:].abs().sum())) ** 2)
    assert float(ridge.weights[-1, 0]) == pytest.approx(1 / 1.1, abs=1e-3)
    assert float(ridge.attacked[-1]) == pytest.approx(0.5 * (1 - 1 / 1.1) ** 2, rel=0.05)
    assert float(exact.attacked[-1]) < 0.05 * float(ridge.attacked[-1])
    assert float(fixed.population[-1]) < 1e-6
    assert float(fixed.attacked[-1]) > 0.1 * float(plain.attacked[-1])  # against the next attack it is open again


def test_growth_is_that_of_the_closed_form(example):
    seen, expected = example.growth(example.Setting(), draws=400)
    assert expected[-1] == expected_attacked_loss(1000, 0.1, 0.1)
    assert seen[2:] == pytest.approx(expected[2:], rel=0.1)


def test_the_page_and_the_numbers_are_written(example, tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.html"
    monkeypatch.setattr(sys, "argv", ["linear_regression.py", str(page), "--dimensions", "12", "--steps", "5"])
    example.main()
    said = capsys.readouterr().out.splitlines()
    assert [line[:13] for line in said[1:5]] == ["plain descent", "ridge        ", "exact regular", "against the f"]
    attacked, first, second = (float(part.split()[-1]) for part in said[5].split(": ")[1].split(","))
    assert attacked == second != first
    text = page.read_text(encoding="utf-8")
    assert 'id="story"' in text
    assert "12 inputs of which the data uses one" in text


def test_bad_input_is_refused(example, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["linear_regression.py", "--dimensions", "1"])
    with pytest.raises(SystemExit):
        example.main()
    assert "expected two or more dimensions" in capsys.readouterr().err
