"""Where the tests find the openb trace, which is not shipped."""

import os
from pathlib import Path

import pytest

OPENB = Path(os.environ.get("FAIROPT_OPENB", Path(__file__).parents[4] / "shared/data/openb"))


@pytest.fixture(scope="session")
def openb_folder() -> Path:
    if not (OPENB / "openb_node_list_all_node.csv").is_file():
        pytest.skip("the openb trace is not here: set FAIROPT_OPENB to the folder of its CSV files")
    return OPENB
