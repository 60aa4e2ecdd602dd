from hypothesis import settings


def test_only_a_search_draws_random_examples(request):
    assert settings().derandomize == (request.config.getoption("--hypothesis-profile") != "search")
