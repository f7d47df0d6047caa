"""The versions of other servers, as they come, change, are checked, and go."""

from __future__ import annotations

from typing import Any

from apiserver.endpoints.aggregation.remote_versions import (
    DiscoveredVersion,
    OpenApiPart,
    RemoteVersion,
    RemoteVersions,
)
from apiserver.meta.vocabulary import GroupVersion

VERSION = GroupVersion("g.io", "v1")


def api_service(*, available: str = "", **spec: Any) -> dict[str, Any]:
    conditions = [{"type": "Available", "status": available}] if available else []
    return {
        "metadata": {"name": "v1.g.io"},
        "spec": {
            "group": "g.io",
            "version": "v1",
            "groupPriorityMinimum": 10,
            "versionPriority": 5,
            "service": {"namespace": "n", "name": "s"},
            **spec,
        },
        "status": {"conditions": conditions},
    }


def remote(document: dict[str, Any]) -> RemoteVersion:
    found = RemoteVersion.of(document)
    assert found is not None
    return found


def test_what_an_api_service_says() -> None:
    found = remote(api_service(caBundle="eA==", insecureSkipTLSVerify=False))
    assert (found.group_version, found.service.host, found.service.port) == (VERSION, "s.n.svc", 443)
    assert (found.ca_bundle, found.verifies, tuple(found.priority)) == ("eA==", True, (10, 5))
    assert RemoteVersion.of(api_service(service=None)) is None


def test_a_server_that_has_not_checked_believes_the_others() -> None:
    versions, seen = RemoteVersions(), remote(api_service(available="True"))
    versions.replace(None, seen)
    assert versions.is_available(seen)
    versions.set_available(seen, False)
    # The condition that another server writes changes nothing of what was found here.
    again = remote(api_service(available="True"))
    versions.replace(seen, again)
    assert not versions.is_available(again)
    # Another service has to be checked anew.
    moved = remote(api_service(available="True", service={"namespace": "n", "name": "t"}))
    versions.replace(again, moved)
    assert versions.is_available(moved)


def test_who_listens_is_told_of_changes_and_of_availability_and_of_nothing_else() -> None:
    versions, told = RemoteVersions(), list[tuple[Any, Any]]()
    versions.on_change(lambda old, new: told.append((old, new)))
    first = remote(api_service())
    versions.replace(None, first)
    versions.replace(first, remote(api_service(available="True")))
    versions.set_available(first, True)
    versions.set_available(first, True)
    versions.replace(first, None)
    assert told == [(None, first), (first, first), (first, None)]
    assert versions.find("g.io", "v1") is None


def test_what_was_asked_of_a_version_that_is_another_by_now_is_dropped() -> None:
    versions, first = RemoteVersions(), remote(api_service())
    versions.replace(None, first)
    versions.set_discovered([(first, DiscoveredVersion(({"resource": "a"},), is_current=True))])
    versions.set_openapi_v2([(first, OpenApiPart("digest", 2, b"{}"))])
    before = versions.current
    assert before.discovered[VERSION].is_current
    assert before.openapi_v2[VERSION].digest == "digest"
    moved = remote(api_service(service={"namespace": "n", "name": "t"}))
    versions.replace(first, moved)
    assert VERSION not in versions.current.discovered
    assert VERSION not in versions.current.openapi_v2
    versions.set_discovered([(first, DiscoveredVersion(is_current=True))])
    versions.set_openapi_v2([(first, OpenApiPart("digest", 2, b"{}"))])
    assert VERSION not in versions.current.discovered
    assert VERSION not in versions.current.openapi_v2
    # A table that somebody has taken stays as it was.
    assert before.versions[VERSION] == first
