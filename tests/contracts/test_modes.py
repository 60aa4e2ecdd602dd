"""Attacks, certifiers, analyses and audits see a network in evaluation mode, whatever mode it was left in."""

import copy
import functools
import importlib
import inspect
import math
import pkgutil

import pytest
import torch

import holdfast.questions
import holdfast.theory
from holdfast.attacks import ATTACKS, FGSM, PGD, Transferred
from holdfast.certify import CERTIFIERS, MixtureMargin, MixtureSmoothing, estimate_margin, mean_logits
from holdfast.corruptions import GaussianNoise
from holdfast.ensembles import Composite, Probability
from holdfast.questions.classes.measurement import class_geometry, class_record, features_by_batch
from holdfast.questions.curvature.measurement import in_units, input_curvature, right_under_noise
from holdfast.questions.features.measurement import feature_layers, layer_names, layers_of
from holdfast.questions.flatness.measurement import flatness
from holdfast.questions.gradient_spectrum.measurement import gradient_maps
from holdfast.questions.lipschitz import weight_norm
from holdfast.questions.mixing.measurement import (
    attacked,
    attempts,
    gradient_sizes,
    mixing_measures,
    mixtures,
    right_answers,
    tried,
)
from holdfast.questions.mixing.summary import Plan
from holdfast.questions.segment.measurement import loss_along_segment
from holdfast.questions.sra.measurement import sra, sra_map
from holdfast.questions.stability.measurement import features_and_logits, stability
from holdfast.questions.sureness import confidences, sureness
from holdfast.questions.surface.measurement import gradient_plane, loss_surface, plane_through
from holdfast.questions.thickness.measurement import boundary_thickness
from holdfast.theory.mixture_radii import affine_constants
from holdfast.theory.noise_curve import noise_curve
from holdfast.threat import L2, Linf
from holdfast.trust import audit
from holdfast.wrappers import BPDA, Counted, Deadline, ExpectedOverRandomness, InCurrentModes
from tests.contracts import cheap
from tests.contracts import modes as contract
from tests.contracts.test_attacks import first_threat, instance
from tests.zoo import images, labels, linear, normed

X, Y = images(6), labels(6, 3)
Z = (X + 0.1).clamp(0, 1)
PGD_STEP = PGD(threat=Linf(0.1), steps=2)


PLAN = Plan(strengths=(0.0, 1.0, math.inf), eps=0.1, at=1.0)
NOISE = GaussianNoise(sigma=0.1)


def certifier(name):
    return cheap.cheap(cheap.CERTIFIERS, name, "CERTIFIERS")


def mixed(model):
    return mixtures(model, model, Probability(), PLAN.strengths)


ANALYSES = {
    class_geometry: lambda model: class_geometry(model, X, Y),
    class_record: lambda model: class_record(model, X, Y, delta_v=0.5, delta_d=5.0),
    features_by_batch: lambda model: features_by_batch(model, X, batch_size=4),
    confidences: lambda model: confidences(model, X, Y, threat=Linf(0.1)),
    sureness: lambda model: sureness(model, X, Y),
    input_curvature: lambda model: input_curvature(model, X, Y, draws=2),
    in_units: lambda model: input_curvature(in_units(model, 0.5), 2 * X, Y, draws=2),
    right_under_noise: lambda model: right_under_noise(model, X, Y, noise=NOISE, draws=2),
    layers_of: lambda model: layers_of(model, X),
    layer_names: lambda model: layer_names(model, X),
    feature_layers: lambda model: feature_layers(model, X, batch_size=4),
    flatness: lambda model: flatness(model, X, Y, radii=(0.0, 0.1), draws=2),
    noise_curve: lambda model: noise_curve(model, X, Y, step=1.0, draws=2, largest=2.0),
    loss_along_segment: lambda model: loss_along_segment(model, X, Z, Y, points=3),
    sra: lambda model: sra(model, X, Y, sigma=0.1, region=L2(0.1), steps=2, draws=2),
    sra_map: lambda model: sra_map(model, X, Y, eps=[0.0, 0.1], sigma=[0.1], region=L2(0.1), steps=2, draws=2),
    stability: lambda model: stability(model, X, Y, sigma=0.1, deltas=[0.1], draws=2),
    features_and_logits: lambda model: features_and_logits(model, X),
    gradient_maps: lambda model: gradient_maps(model, X, Y),
    gradient_plane: lambda model: gradient_plane(model, X, Y),
    loss_surface: lambda model: loss_surface(model, X, Y, plane_through(X, [Z]), steps=2),
    boundary_thickness: lambda model: boundary_thickness(model, X, points=4, attack=PGD_STEP),
    mixtures: lambda model: right_answers(mixed(model), X, Y),
    attempts: lambda model: attacked(attempts(PLAN, mixed(model), PGD_STEP), X, Y),
    right_answers: lambda model: right_answers([model], X, Y),
    tried: lambda model: tried(mixed(model), attempts(PLAN, mixed(model), PGD_STEP), X, Y),
    gradient_sizes: lambda model: gradient_sizes(model, model, X, Linf(0.1)),
    mixing_measures: lambda model: mixing_measures(PLAN, (model, model), mixed(model), PGD_STEP, X, Y),
}

WRAPPERS = {
    "counted": lambda model: Counted(Deadline(model, math.inf), torch.zeros(len(X), dtype=torch.int64)),
    "expectation": lambda model: ExpectedOverRandomness(model, 2),
    "preprocessed": lambda model: BPDA(model, torch.round),
    "partial": lambda model: functools.partial(model.forward.__func__, model),
}


def sees_networks(function):
    """Whether a parameter of the function is a network, or several of them."""
    kinds = [str(parameter.annotation) for parameter in inspect.signature(function).parameters.values()]
    return any("Classifier" in kind or "nn.Module" in kind for kind in kinds)


def public_analyses():
    """The functions of the questions and of the theory that see a network."""
    packages = (holdfast.questions, holdfast.theory)
    infos = [info for each in packages for info in pkgutil.walk_packages(each.__path__, f"{each.__name__}.")]
    for info in infos:
        module = importlib.import_module(info.name)
        functions = [one for name, one in vars(module).items() if inspect.isfunction(one) and not name.startswith("_")]
        yield from (one for one in functions if one.__module__ == module.__name__ and sees_networks(one))


def test_every_analysis_of_a_network_is_tested_here():
    # The first judges a copy of an affine network, the second makes no forward pass.
    assert {*public_analyses()} - {affine_constants, weight_norm} == {*ANALYSES}


@pytest.mark.parametrize("check", contract.ALL, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("analysis", ANALYSES.values(), ids=[function.__name__ for function in ANALYSES])
def test_analyses(analysis, check):
    check(analysis)


@pytest.mark.parametrize("check", contract.ALL, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", ATTACKS)
def test_attacks(name, check):
    check(lambda model: instance(name, first_threat(name))(model, X, Y))


@pytest.mark.parametrize("check", contract.ALL, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", CERTIFIERS)
def test_certifiers(name, check):
    check(lambda model: certifier(name)(model, X))


@pytest.mark.parametrize("check", contract.ALL, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", [name for name, kind in CERTIFIERS.items() if hasattr(kind, "predict")])
def test_predictions_of_smoothed_networks(name, check):
    check(lambda model: certifier(name).predict(model, X))


@pytest.mark.parametrize("check", contract.ALL, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("certified", [MixtureMargin(), MixtureSmoothing(smoothing=certifier("smoothing"))])
def test_parts_of_a_composite_in_train_mode(certified, check):
    def certify(model):
        composite = Composite(copy.deepcopy(model), normed(), Probability(), 3.0)
        composite.robust = model
        return certified(composite, X)

    check(certify)


@pytest.mark.parametrize("check", contract.ALL, ids=lambda check: check.__name__.removeprefix("check_"))
def test_estimates_under_noise(check):
    check(lambda model: (estimate_margin(model, X, Y, 0.1, 8), mean_logits(model, X, 0.1, 8)))


def test_audit():
    def audited(model):
        return list(audit.audit(model, X, Y, attack=PGD_STEP, surrogate=normed().train()))

    contract.check_sees_the_network_in_evaluation_mode(audited)
    contract.check_gives_modes_back_after_an_error(audited)


@pytest.mark.parametrize("check", contract.ALL, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_networks_behind_wrappers(wrap, check):
    check(lambda model: (PGD_STEP(wrap(model), X, Y), certifier("smoothing")(wrap(model), X)))


@pytest.mark.parametrize("check", contract.ALL, ids=lambda check: check.__name__.removeprefix("check_"))
def test_sources_of_transferred_attacks(check):
    check(lambda model: Transferred(attack=PGD_STEP, source=model)(normed(), X, Y))


@pytest.mark.parametrize("check", contract.ALL, ids=lambda check: check.__name__.removeprefix("check_"))
def test_networks_that_preprocess(check):
    check(lambda model: PGD_STEP(BPDA(linear(3, (3,)), model, lambda x: x.flatten(1)[:, :3]), X, Y))


def test_modes_chosen_on_purpose_are_kept():
    model = normed().train()
    before = model.norm.running_mean.clone()
    FGSM(threat=Linf(0.1))(InCurrentModes(model), X, Y)
    assert not torch.equal(model.norm.running_mean, before)


def test_a_generator_leaves_modes_to_its_caller_between_records():
    model = contract.left_in_train_mode()
    steps = flatness(model, X, Y, radii=(0.0, 0.1), draws=2)
    for _ in steps:
        assert model.training
        assert model.dropout.training
        assert not model.head.training
