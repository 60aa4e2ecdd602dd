"""Sections of the report as commands of `holdfast analyse`: stored results, with the fields of the section."""

import pytest

from tests.end_to_end.command import good, refused, said

RECIPE = """
name: tiny
data: {source: digits, validation: 0.2, subset: 60, test_subset: 40}
model: {mlp: {hidden: [8]}}
train: {epochs: 2, batch_size: 16, keep_every: 1}
checks: [clean, {fgsm: {threat: {linf: 0.1}}}]
epoch_checks: [clean, {fgsm: {threat: {linf: 0.1}}}]
variants:
  sgd: {train: {optimizer: {sgd: {lr: 0.1}}}}
  adam: {train: {optimizer: {adam: {lr: 0.01}}}}
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("sections")
    (path / "tiny.yaml").write_text(RECIPE)
    good("run", "tiny.yaml", cwd=path)
    return path


def test_a_section_prints_what_report_shows_of_it(finished):
    shown = good("report", "runs/tiny", "--show", "optimisers", cwd=finished)
    assert good("analyse", "optimisers", "runs/tiny", cwd=finished) == shown
    assert "Optimiser and rate" in shown


def test_its_fields_are_options(finished):
    turned = good("analyse", "optimisers", "runs/tiny", "--reference", "adam", cwd=finished)
    assert "Robust accuracy at equal terms, beside adam" in turned
    top = said("analyse", "top", "runs/tiny", "--k", "2", "--classes", "5", cwd=finished)
    assert [item["caption"] for item in top["top"] if "caption" in item] == ["Top-2 accuracy"]


def test_nothing_to_show_is_said_and_what_is_wrong_is_one_line(finished):
    assert good("analyse", "corruptions", "runs/tiny", cwd=finished) == "corruptions: nothing to show for these runs.\n"
    assert "--k" in refused("analyse", "top", "runs/tiny", "--k", "many", cwd=finished)
    assert "no such directory" in refused("analyse", "top", "nowhere", cwd=finished)
    assert "No such command 'optimiser'" in refused("analyse", "optimiser", "runs/tiny", cwd=finished)
