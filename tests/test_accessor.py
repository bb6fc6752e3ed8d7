"""The table by which early modules reach later ones."""

import pytest

import fairopt as fo
from fairopt.accessor import FUNCTIONS, later


@pytest.mark.parametrize("method", FUNCTIONS)
def test_every_entry_is_a_method_and_names_a_function(method: str) -> None:
    kind, name = method.split(".")
    assert hasattr(getattr(fo, kind, None) or getattr(fo.preferences, kind), name)
    assert callable(later(method))
