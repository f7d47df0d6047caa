"""The garbage collector rests while forks begin and modules are imported, and then goes on as before."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Final

import pytest

from apiserver.load.collection_pause import CollectionPause
from apiserver.testing import ApiServer


@pytest.fixture(params=[True, False], ids=["enabled", "disabled"])
def was_enabled(request: pytest.FixtureRequest) -> Iterator[bool]:
    before, wanted = gc.isenabled(), bool(request.param)
    (gc.enable if wanted else gc.disable)()
    yield wanted
    (gc.enable if before else gc.disable)()


def test_it_goes_on_as_before_with_the_last_that_has_paused(was_enabled: bool) -> None:
    paused, has_paused, may_end = CollectionPause(), threading.Event(), threading.Event()

    def pause() -> None:
        with paused():
            has_paused.set()
            may_end.wait()

    thread = threading.Thread(target=pause)
    with paused():
        assert not gc.isenabled()
        thread.start()
        has_paused.wait()
    assert not gc.isenabled()
    may_end.set()
    thread.join()
    assert gc.isenabled() is was_enabled


def test_it_goes_on_after_a_failure(was_enabled: bool) -> None:
    paused = CollectionPause()
    with pytest.raises(ValueError, match="as intended"), paused():
        raise ValueError("as intended")
    assert gc.isenabled() is was_enabled


def test_it_goes_on_after_a_fork_and_a_reset(was_enabled: bool) -> None:
    with ApiServer() as server:
        snapshot = server.snapshot()
        with server.fork(snapshot):
            assert gc.isenabled() is was_enabled
        server.reset(snapshot)
        assert gc.isenabled() is was_enabled


_PREAMBLE: Final = """
import gc, weakref
from apiserver.load.collection_pause import lasting_imports

class Cycle:
    def __init__(self):
        self.itself = self
"""


def run_in_fresh_python(program: str) -> None:
    """In an interpreter of its own nobody has frozen anything; the process of the tests has, on purpose."""
    subprocess.run([sys.executable, "-c", f"{_PREAMBLE}{program}"], check=True, timeout=60)


@pytest.mark.parametrize("is_enabled", [True, False], ids=["enabled", "disabled"])
def test_what_is_imported_is_old_and_can_still_be_collected(is_enabled: bool) -> None:
    """Also where the interpreter itself has frozen some objects, as that of Python 3.12 has."""
    run_in_fresh_python(f"""
{"gc.enable()" if is_enabled else "gc.disable()"}
with lasting_imports():
    made = Cycle()
assert gc.isenabled() is {is_enabled}
assert any(each is made for each in gc.get_objects(generation=2))
is_there = weakref.ref(made)
del made
gc.collect(1)
assert is_there() is not None
gc.collect()
assert is_there() is None
""")


def test_what_others_have_frozen_stays_so() -> None:
    run_in_fresh_python("""
gc.freeze()
frozen = gc.get_freeze_count()
with lasting_imports():
    made = Cycle()
assert frozen - 100 < gc.get_freeze_count() <= frozen
""")
