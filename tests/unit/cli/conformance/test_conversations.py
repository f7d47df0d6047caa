"""The recorded conversations, wherever they are installed, and what each needs of a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.cli.conformance.conversations import CHECKOUT, Conversation, Recordings, files_in


@pytest.fixture(scope="module")
def recordings() -> Recordings:
    return Recordings()


def test_a_checkout_has_them(recordings: Recordings) -> None:
    folder = CHECKOUT / "scenarios"
    assert recordings.names == sorted(
        str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.yaml")
    )


def test_they_are_read_as_the_replayer_does(recordings: Recordings) -> None:
    replayer = recordings.replayer()
    (conversation,) = recordings.conversations(["rv/delete-rv"], replayer)
    assert conversation.name == "rv/delete-rv"
    assert all(isinstance(step, dict) for step in conversation.document["steps"])


def test_a_folder_without_them_has_no_files(tmp_path: Path) -> None:
    assert files_in(tmp_path) == {}


NEEDS: Final[dict[str, tuple[dict[str, Any], set[str], str]]] = {
    "nothing": ({}, set(), ""),
    "a feature that is off": ({"requires": "A"}, {"B"}, "needs --features A"),
    "a feature that is on": ({"requires": "A"}, {"A"}, ""),
    "two features, one of which is off": ({"requires": ["A", "B"]}, {"A"}, "needs --features B"),
    "a server without a feature": ({"without": "A"}, {"A"}, "needs a server without A"),
}


@pytest.mark.parametrize(("document", "features", "missing"), NEEDS.values(), ids=NEEDS)
def test_features(document: dict[str, Any], features: set[str], missing: str) -> None:
    assert Conversation("a/b", {"steps": [], **document}).missing_feature(frozenset(features)) == missing


def test_webhooks() -> None:
    assert Conversation("a/b", {"steps": [{"sleep": 1}, {"webhook": {"id": "w"}}]}).has_webhooks
    assert not Conversation("a/b", {"steps": [{"received": {"id": "w"}}]}).has_webhooks


IMPERSONATIONS: Final[dict[str, tuple[dict[str, Any], bool]]] = {
    "by the second user": ({"as": "alice", "headers": {"Impersonate-User": "bob"}}, True),
    "by the first user": ({"headers": {"Impersonate-User": "bob"}}, False),
    "none": ({"as": "alice", "headers": {"X": "y"}}, False),
}


@pytest.mark.parametrize(("step", "expected"), IMPERSONATIONS.values(), ids=IMPERSONATIONS)
def test_who_impersonates(step: dict[str, Any], expected: bool) -> None:
    assert Conversation("a/b", {"steps": [step]}).has_second_impersonator is expected
