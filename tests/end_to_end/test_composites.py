"""Composites from recipes, as a user makes them: bases first, then what is made of them, in one file."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
import yaml

from holdfast.results import Ledger
from holdfast.runs import Run
from tests.end_to_end.command import good, refused, said

RUNS = "runs/mixed"
RECIPE = """
name: mixed
data: {source: digits, validation: 0.2, subset: 300, test_subset: 40}
model: {cnn: {blocks: [[4]], hidden: [], feature_dim: null}}
train:
  epochs: 3
  batch_size: 60
  optimizer: {adam: {lr: 0.01}}
checks:
  - clean
  - pgd: {threat: {linf: 0.1}, steps: 3}
  - aimed: {attack: {pgd: {threat: {linf: 0.1}, steps: 3}}, strength: {each: [0, null, .inf]}}
variants:
  standard: {}
  robust: {train: {objective: {adversarial: {pgd: {threat: {linf: 0.1}, steps: 2}}}}}
  fixed:
    model:
      composite:
        standard: "runs/mixed/standard/seed-{seed}"
        robust: "runs/mixed/robust/seed-{seed}"
        mixing: {probability: {temperature: 0.5}}
        strength: 2
  adaptive:
    model:
      adaptive_composite:
        standard: "runs/mixed/standard/seed-{seed}"
        robust: "runs/mixed/robust/seed-{seed}/last.safetensors"
        mixing: {gradient_ratio: {gradients: largest}}
        width: 0.02
    train:
      objective: {policy: {threat: {linf: 0.1}, steps: 2, strengths: [0, 1, .inf]}}
      selection: {metric: robust_accuracy, attack: {pgd: {threat: {linf: 0.1}, steps: 2}}}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("composites")
    (place / "r.yaml").write_text(RECIPE, encoding="utf-8")
    good("run", "r.yaml", cwd=place)
    return place


def rows(place, variant, weights):
    return Ledger(place / RUNS / variant / "seed-0" / "ledger").read().filter(pl.col("weights") == weights)


def test_variants_run_in_order_and_composites_meet_every_check(place):
    for variant, weights in (("fixed", "last"), ("adaptive", "best")):
        found = rows(place, variant, weights)
        assert found.group_by("check").len()["len"].to_list() == [40] * 5
        assert "aimed" in found["method"].to_list()
    info = Run(place / RUNS / "fixed" / "seed-0").info()
    assert info["model"]["name"] == "composite"
    assert set(info["weights"]) == {"last"}
    assert info["bases"]["standard"]["name"] == "mixed/standard/seed-0"
    assert Run(place / RUNS / "adaptive" / "seed-0").info()["bases"]["robust"]["weights"] == "last"


def test_repeated_it_does_nothing_and_says_the_worst_case(place):
    def files():
        kinds = ("*.safetensors", "*.parquet")
        return {file: file.stat().st_mtime_ns for kind in kinds for file in (place / RUNS).rglob(kind)}

    before = files()
    results = said("run", "r.yaml", cwd=place)["results"]
    assert files() == before
    page = (place / RUNS / "report.html").read_text(encoding="utf-8")
    for variant, weights in (("fixed", "last"), ("adaptive", "best")):
        assert variant in page
        survived = rows(place, variant, weights).group_by("example").agg(pl.col("correct").all())["correct"].sum()
        (worst,) = [
            record["correct"] for record in results
            if (record["run"], record["weights"]) == (f"mixed/{variant}/seed-0", weights)
            and record["threat"]
        ]  # fmt: skip
        assert worst == survived


def test_only_some_variants_are_run_and_the_report_has_all(place, tmp_path):
    found = said("run", "r.yaml", "--only", "fixed, robust", cwd=place)
    assert found["runs"] == [f"{RUNS}/{variant}/seed-0" for variant in ("robust", "fixed")]
    assert "mixed/adaptive/seed-0" in (place / RUNS / "report.html").read_text(encoding="utf-8")
    (tmp_path / "r.yaml").write_text(RECIPE, encoding="utf-8")
    good("train", "r.yaml", "--only", "standard", cwd=tmp_path)
    assert [path.name for path in (tmp_path / RUNS).iterdir()] == ["standard"]


def test_its_weights_alone_are_enough(place, tmp_path):
    shutil.copy(place / RUNS / "adaptive" / "seed-0" / "best.safetensors", tmp_path / "alone.safetensors")
    found = said("evaluate", "alone.safetensors", "--checks", "clean", cwd=tmp_path)["results"][0]
    clean = rows(place, "adaptive", "best").filter(pl.col("check") == "clean")
    assert (found["check"], found["correct"]) == ("clean", clean["correct"].sum())


def test_composites_of_the_same_networks_do_not_share_what_was_measured(place):
    mixed = {"standard": f"{RUNS}/standard/seed-0", "robust": f"{RUNS}/robust/seed-0"}
    chances = {"model": {"composite": {**mixed, "mixing": "probability", "strength": 4}}}
    other = {"model": {"composite": {**mixed, "mixing": "gradient_ratio", "strength": 4}}}
    text = yaml.safe_load(RECIPE) | {"name": "two", "checks": ["clean"], "variants": {"a": chances, "b": other}}
    (place / "two.yaml").write_text(yaml.safe_dump(text), encoding="utf-8")
    good("run", "two.yaml", cwd=place)
    ask = ("certify", "--method", "mixture_margin", "--subset", "5")
    good(*ask[:1], "runs/two/a/seed-0", *ask[1:], cwd=place)
    assert "expected mixed probabilities" in refused(*ask[:1], "runs/two/b/seed-0", *ask[1:], cwd=place)
    hashes = [Run(place / f"runs/two/{variant}/seed-0").info()["weights"]["last"]["sha256"] for variant in "ab"]
    assert hashes[0] != hashes[1]


def test_show_list_and_schema_know_them(place):
    shown = yaml.safe_load(good("show", f"{RUNS}/fixed/seed-0", cwd=place))
    assert shown["model"]["composite"]["mixing"] == {"probability": {"temperature": 0.5, "transform": None}}
    assert {"composite", "adaptive_composite"} <= set(json.loads(good("list", "models", "--json", cwd=place)))
    assert "policy" in json.loads(good("list", "objectives", "--json", cwd=place))
    assert "adaptive_composite" in good("schema", cwd=place)


def test_a_transformation_is_fitted_once_and_said(place):
    mixed = {"standard": f"{RUNS}/standard/seed-0", "robust": f"{RUNS}/robust/seed-0", "fit": True}
    model = {"composite": {**mixed, "mixing": {"probability": {"transform": {}}}}}
    text = {**yaml.safe_load(RECIPE), "name": "fitted", "model": model, "variants": {"a": {}}}
    (place / "fitted.yaml").write_text(yaml.safe_dump(text), encoding="utf-8")
    output = good("run", "fitted.yaml", cwd=place)
    fitted = Run(place / "runs/fitted/a/seed-0").info()["fitted"]
    assert fitted["attack"] == "pgd linf eps=0.1 steps=3"
    said_so = [line for line in output.splitlines() if "fitted scale" in line]
    assert len(said_so) == 1
    assert f"strength {fitted['strength']:.4g}" in said_so[0]
    shown = yaml.safe_load(good("show", "runs/fitted/a/seed-0", cwd=place))["model"]["composite"]
    assert shown["strength"] == fitted["strength"]
    assert shown["mixing"]["probability"]["transform"]["shift"] == fitted["shift"]
    assert "fitted scale" not in good("run", "fitted.yaml", cwd=place)
    assert "Fitted" in (place / "runs/fitted/report.html").read_text(encoding="utf-8")


def test_missing_bases_and_plain_networks_are_one_line(tmp_path):
    text = yaml.safe_load(RECIPE)
    text["variants"] = {"fixed": text["variants"]["fixed"]}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(text), encoding="utf-8")
    assert "model.standard: runs/mixed/standard/seed-0: expected" in refused("run", "r.yaml", cwd=tmp_path)
    # Nothing was made, so that another recipe may have the place.
    mended = yaml.safe_dump(text).replace("runs/mixed/standard", "runs/else")
    (tmp_path / "r.yaml").write_text(mended, encoding="utf-8")
    assert "model.standard: runs/else/seed-0: expected" in refused("run", "r.yaml", cwd=tmp_path)
    plain = "train.objective={policy: {threat: {linf: 0.1}}}"
    (tmp_path / "p.yaml").write_text("name: p\ndata: {source: digits, subset: 60}\nmodel: mlp\n", encoding="utf-8")
    assert "policy trains the policy of an adaptive composite, got Network" in refused(
        "train", "p.yaml", "--set", plain, cwd=tmp_path
    )
    assert not list(Path(tmp_path).rglob("*.safetensors"))
