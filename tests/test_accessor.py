"""The table by which early modules reach later ones."""

import pytest

import fairopt as fo
from fairopt.accessor import FUNCTIONS, later
from fairopt.properties.audit import audit


@pytest.mark.parametrize("method", FUNCTIONS)
def test_every_entry_is_a_method_and_names_a_function(method: str) -> None:
    kind, name = method.split(".")
    places = (fo.derivatives, fo.online, fo.properties, fo.tradeoff, fo.tradeoff.preferences, audit, fo)
    owner = next(getattr(place, kind) for place in places if hasattr(place, kind))
    assert hasattr(owner, name)
    assert callable(later(method))
