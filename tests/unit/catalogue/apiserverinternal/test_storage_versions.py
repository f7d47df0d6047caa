"""StorageVersions. Source: pkg/apis/apiserverinternal/validation (release 1.36); rows H01, S03."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.apiserverinternal.storage_versions import storage_version_name
from apiserver.meta.vocabulary import Document
from tests.unit.catalogue.removed_versions.old_kinds import OldKind
from tests.unit.catalogue.served_kinds import assert_texts_begin

VERSION: Final = OldKind(
    "storageversions.internal.apiserver.k8s.io",
    "v1alpha1",
    36,
    {"metadata": {"name": "apps.deployments"}, "spec": {}},
)


def server(identity: str = "a", encoding: str = "apps/v1", **fields: Any) -> Document:
    return {"apiServerID": identity, "encodingVersion": encoding, "decodableVersions": [encoding], **fields}


def condition(**fields: Any) -> Document:
    return {
        "type": "AllEncodingVersionsEqual",
        "status": "True",
        "reason": "R",
        "message": "m",
        "lastTransitionTime": "2024-05-06T07:08:09Z",
        **fields,
    }


NAMES: Final = {
    "a group and a resource": ("apps.deployments", ""),
    "a long group": ("internal.apiserver.k8s.io.storageversions", ""),
    "no group": ("pods", "name must be in the form of <group>.<resource>"),
    "no resource": ("apps.", "the resource segment a DNS-1035 label must consist"),
    "a bad group": ("A.pods", "the group segment a lowercase RFC 1123 subdomain must"),
}


@pytest.mark.parametrize(("name", "problem"), NAMES.values(), ids=NAMES)
def test_names(name: str, problem: str) -> None:
    problems = storage_version_name(name)
    assert [text.startswith(problem) for text in problems] == ([True] if problem else [])


def test_a_new_one_has_no_status() -> None:
    created = VERSION.create({"status": {"commonEncodingVersion": "v1"}})
    assert created.texts == []
    assert created.document["status"] == {}


def test_the_status_is_written_alone() -> None:
    status = {"storageVersions": [server()], "commonEncodingVersion": "apps/v1"}
    assert "storageVersions" not in VERSION.update({"status": status}).document["status"]
    written = VERSION.update({"status": status, "metadata.labels": {"a": "b"}}, "status")
    assert written.texts == []
    assert written.document["status"]["commonEncodingVersion"] == "apps/v1"
    assert "labels" not in written.document["metadata"]


SERVED_1: Final = (
    'status.storageVersions[0].servedVersions[1]: Invalid value: "v2": individual served version : '
)
ENCODING: Final = 'status.storageVersions[0].encodingVersion: Invalid value: "/": '
# A status, and the beginnings of what is told.
STATUSES: Final[dict[str, tuple[Document, list[str]]]] = {
    "nobody has told anything": ({}, []),
    "servers that agree": (
        {"storageVersions": [server(), server("b")], "commonEncodingVersion": "apps/v1"},
        [],
    ),
    "servers that do not": ({"storageVersions": [server(), server("b", "v1")]}, []),
    "a condition": ({"conditions": [condition()]}, []),
    "what they agree on is told": (
        {"storageVersions": [server()]},
        ["status.commonEncodingVersion: Invalid value: null: the common encoding version is apps/v1"],
    ),
    "another one is told": (
        {"storageVersions": [server()], "commonEncodingVersion": "v1"},
        ['status.commonEncodingVersion: Invalid value: "v1": the actual common encoding version is apps/v1'],
    ),
    "they agree on nothing": (
        {"storageVersions": [server(), server("b", "v1")], "commonEncodingVersion": "v1"},
        ['status.commonEncodingVersion: Invalid value: "v1": should be nil if servers do not agree'],
    ),
    "nobody agrees": (
        {"commonEncodingVersion": "v1"},
        ['status.commonEncodingVersion: Invalid value: "v1": should be nil'],
    ),
    "what is stored can be read": (
        {"storageVersions": [server(decodableVersions=["v2"])], "commonEncodingVersion": "apps/v1"},
        ['status.storageVersions[0].decodableVersions: Invalid value: ["v2"]: decodableVersions must incl'],
    ),
    "what is served can be read": (
        {"storageVersions": [server(servedVersions=["apps/v1", "v2"])], "commonEncodingVersion": "apps/v1"},
        [f"{SERVED_1}v2 must be included in decodableVersions : [apps/v1]"],
    ),
    "no version": (
        {"storageVersions": [server(encoding="a/b/c")], "commonEncodingVersion": "a/b/c"},
        [
            'status.storageVersions[0].encodingVersion: Invalid value: "a/b/c": an apiVersion is a DNS-1035',
            'status.storageVersions[0].decodableVersions[0]: Invalid value: "a/b/c": an apiVersion is',
        ],
    ),
    "a version without its parts": (
        {"storageVersions": [server(encoding="/")], "commonEncodingVersion": "/"},
        [
            f"{ENCODING}group part: must be non-empty,version part: must be non-empty",
            "status.storageVersions[0].decodableVersions[0]: Invalid value",
        ],
    ),
    "no server": (
        {"storageVersions": [server("")], "commonEncodingVersion": "apps/v1"},
        ['status.storageVersions[0].apiServerID: Invalid value: ""'],
    ),
    "a condition without a reason": (
        {"conditions": [condition(reason="", message="")]},
        [
            "status[0].reason: Required value: reason cannot be empty",
            "status[0].message: Required value: message cannot be empty",
        ],
    ),
    "a condition twice": (
        {"conditions": [condition(), condition()]},
        ['status[1].type: Invalid value: "AllEncodingVersionsEqual": the type of the condition is not u'],
    ),
    "a condition of no type": (
        {"conditions": [condition(type="", status="")]},
        [
            'status[0].type: Invalid value: "": name part must be non-empty',
            'status[0].type: Invalid value: "": name part must consist',
            'status[0].status: Invalid value: "": name part must be non-empty',
            'status[0].status: Invalid value: "": name part must consist',
        ],
    ),
}


@pytest.mark.parametrize(("status", "beginnings"), STATUSES.values(), ids=STATUSES)
def test_statuses(status: Document, beginnings: list[str]) -> None:
    assert_texts_begin(VERSION.update({"status": status}, "status").texts, beginnings)


def test_hostile_lists_are_told_in_part() -> None:
    """Each error tells all that a server can decode."""
    served = [f"v{index}" for index in range(10_000)]
    status = {"storageVersions": [server(servedVersions=served)], "commonEncodingVersion": "apps/v1"}
    assert len(VERSION.update({"status": status}, "status").texts) == 16


ROWS: Final[dict[str, tuple[Document, dict[str, str]]]] = {
    "nobody has told anything": ({}, {"CommonEncodingVersion": "<unset>", "StorageVersions": ""}),
    "one server": (
        {"storageVersions": [server()], "commonEncodingVersion": "apps/v1"},
        {"CommonEncodingVersion": "apps/v1", "StorageVersions": "a=apps/v1"},
    ),
    "many": (
        {"storageVersions": [server(each, "v1") for each in "abcde"]},
        {"StorageVersions": "a=v1,b=v1,c=v1 + 2 more..."},
    ),
}


@pytest.mark.parametrize(("status", "cells"), ROWS.values(), ids=ROWS)
def test_rows(status: Document, cells: dict[str, str]) -> None:
    assert cells.items() <= VERSION.cells({"status": status}).items()
