"""The table by which early modules reach later ones."""

import pytest

import fairopt as fo
from fairopt.accessor import FUNCTIONS, later
from fairopt.properties import verdicts
from fairopt.properties.audit import audit


@pytest.mark.parametrize("method", FUNCTIONS)
def test_every_entry_is_a_method_and_names_a_function(method: str) -> None:
    kind, name = method.split(".")
    owner = next(getattr(place, kind) for place in (fo, fo.preferences, audit, verdicts) if hasattr(place, kind))
    assert hasattr(owner, name)
    assert callable(later(method))
