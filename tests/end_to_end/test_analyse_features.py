"""`holdfast analyse features` and `holdfast analyse surface` as a user calls them."""

import pytest
import torch

from holdfast.attacks import PGD
from holdfast.data import Digits
from holdfast.questions.answers import Store
from holdfast.questions.surface.measurement import gradient_plane, loss_surface
from holdfast.rng import Streams
from holdfast.runs import load_model
from holdfast.threat import L2
from tests.end_to_end.command import good, refused, said
from tests.end_to_end.test_certify import SMALL
from tests.report.reading import read

RUN = "runs/two/a/seed-0"
OTHER = "runs/two/b/seed-0"
FEATURES = [RUN, "--images", "30", "--points", "20", "--resamples", "5", "--maps", "pca", "--batch-size", "7"]
SURFACE = ["--steps", "2", "--show", "14,2"]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("holdfast.show.page.plotly_script", lambda: "")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("two")
    variants = "variants: {a: {}, b: {train: {epochs: 1}}}\n"
    (path / "tiny.yaml").write_text(SMALL.replace("name: tiny", "name: two") + variants)
    good("run", "tiny.yaml", "--set", "checks=[clean]", cwd=path)
    return path


def layers(place, *argv):
    (answer,) = said("analyse", "features", *argv, cwd=place)["answers"]
    return answer["settings"], answer["records"]


def test_layers_are_measured_stored_resumed_and_shown(place):
    _, records = layers(place, *FEATURES)
    assert [(record["name"], record["size"]) for record in records] == [("stage 1", 64), ("penultimate", 8)]
    assert len(records[0]["example"]) == len(set(records[0]["example"])) == 20
    assert [len(axis) for axis in records[0]["maps"]["pca"]["noisy"]] == [20, 20]
    test = Digits()().test
    assert test.y[records[0]["example"]].tolist() == records[0]["label"]
    (answer,) = Store(place / RUN).read_all()
    Store(place / RUN).write(answer.key, answer.records[:1])  # as an interruption leaves it
    assert layers(place, *FEATURES)[1] == records
    Store(place / RUN).write(answer.key)
    for name, number in layers(place, *FEATURES[:-1], "30")[1][1]["noisy"].items():
        assert records[1]["noisy"][name] == pytest.approx(number, rel=1e-4)
    Store(place / RUN).write(answer.key, answer.records)
    printed = good("analyse", "features", *FEATURES, cwd=place)
    assert f"{records[1]['noisy']['silhouette']['value']:.3f} [" in printed
    page = read(place / RUN / "report.html")
    rows = page.table("Separation of the classes, gaussian_noise sigma=0.06, 30 images")
    assert list(rows)[-2:] == ["penultimate (8), clean", "penultimate (8), noisy"]


def test_stored_layers_are_not_computed_again(place, monkeypatch):
    first = layers(place, *FEATURES, "--noise", "uniform_noise: 0.1")
    monkeypatch.setattr("holdfast.questions.features.measurement.feature_layers", None)
    assert layers(place, *FEATURES, "--noise", "uniform_noise: 0.1") == first
    assert first[0]["noise"]["uniform_noise"]["eps"] == 0.1


def test_noise_has_fields_with_commas(place):
    noise = "common: {kind: contrast, severity: 3}"
    settings, _ = layers(place, *FEATURES, "--noise", noise)
    assert settings["noise"] == {"common": {"kind": "contrast", "severity": 3}}


def surfaces(place, *argv):
    (answer,) = said("analyse", "surface", *argv, cwd=place)["answers"]
    return answer["settings"], answer["records"]


def test_a_surface_is_that_of_the_function_and_images_add_up(place, monkeypatch):
    _, records = surfaces(place, RUN, *SURFACE)
    assert [record["example"] for record in records] == [14, 2]
    model, test = load_model(place / RUN).model.eval(), Digits()().test
    x, y = test.batch([14])
    plane = gradient_plane(model, x, y, rng=Streams(0, "surface", [14]))
    wanted = loss_surface(model, x, y, plane, steps=2)
    torch.testing.assert_close(torch.tensor(records[0]["loss"]).double(), wanted.loss[0], rtol=1e-3, atol=1e-6)
    assert records[0]["prediction"] == wanted.prediction[0].tolist()
    assert records[0]["numbers"]["here"] == records[0]["loss"][2][2]
    settings, more = surfaces(place, RUN, "--steps", "2", "--batch-size", "3")
    examples = [record["example"] for record in more]
    assert len(examples) == 4  # the first four
    assert (settings["show"], settings["radius"]) == (examples, 1.0)
    assert "gradient and random" in good("analyse", "surface", RUN, *SURFACE, cwd=place)
    page = read(place / RUN / "report.html")
    assert sum(name.startswith("surface-") for name in page.specs) == len({2, 14, *examples})
    monkeypatch.setattr("holdfast.questions.surface.directions.loss_surface", None)
    assert surfaces(place, RUN, *SURFACE)[1] == records  # stored


def test_attacks_on_this_network_and_on_another_make_planes(place):
    options = [RUN, "--steps", "2", "--show", "2", "--norm", "l2", "--eps", "0.5"]
    settings, (one,) = surfaces(place, *options, "--along", "pgd,random")
    assert settings["radius"] == 0.625  # 1.25 times the budget
    ((a, b),) = one["marks"]
    assert 0 < a <= 0.5
    assert abs(b) < 1e-6
    settings, (two,) = surfaces(place, *options, "--along", f"pgd,pgd@{OTHER}")
    assert two["marks"][0] == [a, pytest.approx(0, abs=1e-6)]
    (x, y), rng = Digits()().test.batch([2]), Streams(0, "surface", [2])
    attack = PGD(threat=L2(0.5), until_lost=False)
    first, second = (
        (attack(load_model(place / run).model.eval(), x, y, rng=rng.split(f"attack {number}")) - x).flatten()
        for number, run in enumerate((RUN, OTHER))
    )
    along = float(first @ second / first.norm())
    across = float((second.square().sum() - along**2).sqrt())
    assert two["marks"][1] == pytest.approx([along, across], abs=1e-3)
    assert set(settings["others"]) == {f"pgd@{OTHER}"}
    settings, _ = surfaces(place, RUN, "--steps", "1", "--show", "2", "--along", "fgsm,pgd")
    assert settings["radius"] == pytest.approx(1.25 * 8 / 255 * 8, rel=5e-3)  # eps times the root of 64


def test_several_networks_share_the_scale_of_an_image(place):
    output = said("analyse", "surface", RUN, OTHER, "--steps", "1", "--show", "2", cwd=place)
    (table,) = [item for item in output["shown"] if "columns" in item]
    assert [row["name"] for row in table["rows"]] == ["a (best), example 2", "b (best), example 2"]


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (
            ["features", RUN, "--maps", "tsnee"],
            "maps: unknown name 'tsnee'; known: pca, tsne, umap. Did you mean 'tsne'?",
        ),
        (["features", RUN, "--first", "3"], "features: separation: expected two or more classes"),
        (["features", RUN, "--noise", "gausian_noise: 0.1"], "--noise"),
        (["features", RUN, "--noise", "{"], "--noise: expected a value as in a recipe; got '{'"),
        (["features", RUN, "--noise", "gaussian_noise: -1"], "--noise"),
        (["surface", RUN, "--along", "gradient"], "along: expected gradient,random, or an attack and random"),
        (["surface", RUN, "--along", "gradient,pgd"], "along: expected gradient,random, or an attack and random"),
        (["surface", RUN, "--along", "pgdd,random"], "along: unknown name 'pgdd'"),
        (
            ["surface", RUN, "--along", "eot,random"],
            "along: expected attacks that need no more than a threat",
        ),
        (["surface", RUN, "--along", "pgd,random", "--norm", "l0"], "--norm: expected 'linf', 'l2' or 'l1'; got 'l0'"),
        (["surface", RUN, "--along", "pgd,random", "--eps", "x"], "--eps: expected a number or a fraction"),
        (["surface", RUN, "--along", "pgd,pgd@nowhere"], "nowhere"),
        (
            ["surface", RUN, "--show", "500"],
            "show: expected examples of the test images, such as 2, 11, 14, 37; got 500",
        ),
        (["surface", RUN, "--radius", "0"], "radius: expected a positive number, got 0"),
        (
            ["features", "--model", "python:tests.end_to_end.foreign:network", "--data", "digits"],
            "expected one that shows its features",
        ),
    ],
)
def test_bad_questions_are_one_line(place, argv, says):
    assert says in refused("analyse", *argv, cwd=place)
