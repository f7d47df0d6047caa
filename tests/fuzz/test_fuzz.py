"""Every target holds for its corpus, and for a thousand mutations that are the same on each run."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from tests.fuzz import corpus, mutations, targets

MUTATIONS: Final = 1000
NAMES: Final = targets.names()
# Many of its inputs begin a watch, and nothing tells that no answer comes.
WAITING: Final = "http.websocket_frames"


@pytest.mark.parametrize("name", NAMES)
def test_the_corpus_holds(name: str) -> None:
    target = targets.load(name)
    for data in (*target.seeds, *corpus.load(name)):
        target.check(data)


def test_the_corpus_is_of_targets() -> None:
    assert {path.stem for path in corpus.DIRECTORY.iterdir()} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_corpus_is_kept_as_it_would_be_written(name: str) -> None:
    """Whatever bytes an input has, its line is read as it was."""
    inputs = corpus.load(name)
    assert len(set(inputs)) == len(inputs)
    assert corpus.text(inputs) == corpus.text(reversed(inputs))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.longest] * (name == WAITING)) for name in NAMES]
)
def test_mutations_hold(name: str) -> None:
    target, random = targets.load(name), Random(0)
    inputs = [*target.seeds, *corpus.load(name)]
    for _ in range(MUTATIONS):
        target.check(mutations.mutated(target, inputs, random))
