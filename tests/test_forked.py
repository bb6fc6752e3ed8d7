"""Programs that tests run must end, whatever they do."""

import forked
import pytest


def test_a_program_that_does_not_say_the_word_is_killed() -> None:
    program = forked.Program("-c", "import time; time.sleep(3600)")
    with pytest.raises(TimeoutError, match="does not say 'never'"):
        program.wait_for("never", program.out, patience=0.0)
    assert not program.process.is_alive()
