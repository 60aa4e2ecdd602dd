import pytest

from holdfast.conduct import claim_jobs, is_first
from holdfast.conduct.ranks import require_one_machine
from holdfast.errors import RecipeError
from tests.end_to_end.command import good, refused
from tests.training.tiny import TEXT, recipe

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK", "GROUP_RANK")


@pytest.fixture
def environment(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch.setenv


@pytest.mark.parametrize(
    ("variables", "first"),
    [
        ({}, True),
        ({"RANK": "0", "WORLD_SIZE": "2"}, True),
        ({"RANK": "1", "WORLD_SIZE": "2"}, False),
        ({"LOCAL_RANK": "1", "WORLD_SIZE": "2"}, False),
        ({"RANK": "2", "LOCAL_RANK": "0", "WORLD_SIZE": "4"}, False),  # the first of another machine
        ({"RANK": "1"}, True),
        ({"LOCAL_RANK": "1"}, True),
        ({"RANK": "1", "WORLD_SIZE": "1"}, True),
        ({"WORLD_SIZE": "4"}, True),
    ],
)
def test_a_process_is_a_helper_only_among_others(environment, variables, first):
    for name, value in variables.items():
        environment(name, value)
    assert is_first() == first


@pytest.mark.parametrize("name", NAMES[:3])
@pytest.mark.parametrize("value", ["x", "", "-1", "1.0", " 1", "\u0663", "9" * 5000])
def test_a_rank_that_is_no_number_is_an_error_that_names_the_variable(environment, name, value):
    environment(name, value)
    with pytest.raises(RecipeError, match=f"{name}: expected a whole number from 0"):
        is_first()


@pytest.mark.parametrize("verb", ["run", "train"])
def test_a_rank_without_others_changes_nothing_and_no_number_is_one_line(environment, tmp_path, verb):
    (tmp_path / "tiny.yaml").write_text(TEXT)
    environment("RANK", "x")
    assert "RANK: expected a whole number from 0" in refused(verb, "tiny.yaml", cwd=tmp_path)
    assert not (tmp_path / "runs").exists()
    environment("RANK", "1")
    assert "runs/tiny" in good(verb, "tiny.yaml", cwd=tmp_path)
    assert (tmp_path / "runs/tiny/seed-0/last.safetensors").exists()


def test_several_devices_wait_for_no_other_machine(environment, tmp_path):
    one, two = recipe(), recipe("train.fabric.devices=2")
    environment("NODE_RANK", "1")
    require_one_machine([one])
    with pytest.raises(RecipeError, match="NODE_RANK: expected 0, since a recipe trains on the devices of one machine"):
        require_one_machine([one, two])
    with pytest.raises(RecipeError, match="NODE_RANK"):
        claim_jobs([two], tmp_path, lambda run: None)
    assert not list(tmp_path.iterdir())
    environment("WORLD_SIZE", "4")  # torchrun has started all processes
    require_one_machine([two])
