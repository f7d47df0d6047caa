"""UIDs of new objects."""

from __future__ import annotations

import gc
import os
import uuid
import weakref

from apiserver.registry.write_path import UidSource


def test_they_are_random_and_of_version_4() -> None:
    source = UidSource()
    made = [uuid.UUID(source()) for _ in range(1_000)]
    assert {(each.version, each.variant) for each in made} == {(4, uuid.RFC_4122)}
    assert len({*made}) == 1_000


def test_processes_never_make_the_same() -> None:
    source = UidSource()
    source()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, source().encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as of_child:
        assert of_child.read() != source()


def test_a_source_that_nobody_uses_any_more_is_gone() -> None:
    """What is to be called after a fork is kept for ever."""
    source = UidSource()
    source()
    gone = weakref.ref(source)
    del source
    gc.collect()
    assert gone() is None
