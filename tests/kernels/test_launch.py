"""Launches say what would fail on a card only."""

import pytest

from unabridged.engine.attention.kernels.score_rep_kernel import one_query
from unabridged.models.kernels.launch import Launch


@pytest.mark.parametrize("name", ["stream", "grid", "device", "warmup"])
def test_arguments_of_the_launcher(name: str) -> None:
    with pytest.raises(AssertionError, match=name):
        Launch(one_query, (1,), {name: 1})
