"""What a later release removes is gone: for all, or for the clients that ask for it. Row T31."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest

from apiserver.endpoints.removal_rehearsal import REHEARSED_MAX
from apiserver.meta.releases.lifecycles import last_known_removal
from tests.support.api import Api
from tests.support.definitions import define, definition, new_group
from tests.support.server_process import ServerProcess

BETA: Final = "/apis/networking.k8s.io/v1beta1/servicecidrs"
STABLE: Final = "/apis/networking.k8s.io/v1/servicecidrs"
GONE_IN: Final = {"Emulate-Removal": "1.37"}
NOT_FOUND: Final = "the server could not find the requested resource"


@pytest.fixture(scope="module")
def rehearsing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that takes the header."""
    flags = ("--runtime-config=api/beta=true", "--emulate-removal-header")
    with ServerProcess(tmp_path_factory.mktemp("header") / "data", *flags) as server:
        yield server


@pytest.fixture
def api(rehearsing: ServerProcess) -> Iterator[Api]:
    with Api(rehearsing) as api:
        yield api


PATHS: Final = {
    "T31: the resource": (BETA, NOT_FOUND),
    "T31: an object": (f"{BETA}/kubernetes", NOT_FOUND),
    "T31: its version": ("/apis/networking.k8s.io/v1beta1", NOT_FOUND),
}


@pytest.mark.parametrize(("path", "message"), PATHS.values(), ids=PATHS)
def test_what_is_removed_is_not_there_for_who_asks_so(api: Api, path: str, message: str) -> None:
    answer = api.get(path, headers=GONE_IN)
    assert (answer.status, answer.message) == (404, message)
    assert answer.warnings == []
    assert api.get(path).status == 200


def test_what_is_not_removed_is_served(api: Api) -> None:
    assert api.get(STABLE, headers=GONE_IN).ok() == api.get(STABLE).ok()
    earlier = {"Emulate-Removal": "v1.37"}
    assert api.get("/api/v1/namespaces/default", headers=earlier).status == 200


def test_discovery_does_not_name_it(api: Api) -> None:
    aggregated = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
    for headers, has_it in (({}, True), (GONE_IN, False)):
        groups = {group["name"]: group for group in api.get("/apis", headers=headers).ok()["groups"]}
        versions = [each["version"] for each in groups["networking.k8s.io"]["versions"]]
        assert ("v1beta1" in versions) is has_it
        found = api.get("/apis", headers={**headers, **aggregated}).ok()["items"]
        (group,) = (each for each in found if each["metadata"]["name"] == "networking.k8s.io")
        assert ("v1beta1" in [each["version"] for each in group["versions"]]) is has_it
        assert (
            "apis/networking.k8s.io/v1beta1" in api.get("/openapi/v3", headers=headers).ok()["paths"]
        ) is (has_it)


def test_definitions_are_there_as_soon_as_for_others(api: Api) -> None:
    assert api.get("/apis", headers=GONE_IN).status == 200
    group = new_group()
    define(api, definition(group))
    path = f"/apis/{group}/v1/widgets"
    assert api.get(path, headers=GONE_IN).ok() == api.get(path).ok()


def test_writes_are_refused_too(api: Api) -> None:
    body = {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.9.0.0/24"]}}
    assert api.post(BETA, body, headers=GONE_IN).status == 404
    assert api.get(f"{STABLE}/more").status == 404


BAD: Final = {
    "none": "",
    "a word": "next",
    "another major version": "2.0",
    "a patch": "1.38.1",
    "the emulated one": "1.36",
    "an earlier one": "1.20",
    "a long one": "1." + "9" * 1000,
}


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
def test_other_values_are_refused(api: Api, value: str) -> None:
    answer = api.get(STABLE, headers={"Emulate-Removal": value})
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message == "the header Emulate-Removal must be a release after 1.36, such as 1.37"


@pytest.mark.parametrize("minor", [last_known_removal() + 1, 999])
def test_releases_whose_removals_nobody_knows_are_refused_as_the_flag_refuses_them(
    api: Api, minor: int
) -> None:
    answer = api.get(STABLE, headers={"Emulate-Removal": f"1.{minor}"})
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message == (
        f"the header Emulate-Removal: 1.{minor} is after 1.{last_known_removal()}, the last release whose "
        "removals are known"
    )


def test_many_releases_may_be_rehearsed(api: Api) -> None:
    releases = [*range(37, last_known_removal() + 1), 37]
    assert len(releases) > REHEARSED_MAX + 1
    for minor in releases:
        assert api.get(BETA, headers={"Emulate-Removal": f"1.{minor}"}).status == 404


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server that has removed it for all."""
    flags = ("--runtime-config=api/beta=true", "--emulate-removal=1.37")
    with ServerProcess(tmp_path_factory.mktemp("flag") / "data", *flags) as server, Api(server) as api:
        yield api


@pytest.mark.parametrize(("path", "message"), PATHS.values(), ids=PATHS)
def test_what_is_removed_is_not_there_for_anybody(without: Api, path: str, message: str) -> None:
    answer = without.get(path)
    assert (answer.status, answer.message) == (404, message)
    assert without.get(STABLE).status == 200


def test_the_header_means_nothing_without_the_flag(without: Api) -> None:
    assert without.get(STABLE, headers={"Emulate-Removal": "1.x"}).status == 200


# ---- an old release, which has much that goes

OLD_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1beta1/namespaces/default/roles"
ROLES: Final = OLD_ROLES.replace("v1beta1", "v1")
FLOW_CONTROL: Final = "/apis/flowcontrol.apiserver.k8s.io"
# The header, or none for the server that has removed it for all.
REMOVED_FOR: Final = {"a client": {"Emulate-Removal": "1.26"}, "everybody": {}}


class Rehearsed(NamedTuple):
    """A client of 1.21, and the headers with which it is without what 1.26 does not have."""

    api: Api
    headers: dict[str, str]


@pytest.fixture(scope="module", params=REMOVED_FOR)
def old(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsed]:
    headers = REMOVED_FOR[request.param]
    flag = "--emulate-removal-header" if headers else "--emulate-removal=1.26"
    flags = ("--emulated-version=1.21", flag)
    with ServerProcess(tmp_path_factory.mktemp("old") / "data", *flags) as server, Api(server) as api:
        yield Rehearsed(api, headers)


def test_t31_objects_stay_in_the_versions_that_are_left(old: Rehearsed) -> None:
    api, headers = old
    api.post(OLD_ROLES if headers else ROLES, {"metadata": {"name": "reader"}, "rules": []}).ok()
    assert api.get(f"{OLD_ROLES}/reader", headers=headers).status == 404
    assert api.get(f"{ROLES}/reader", headers=headers).ok()["apiVersion"] == "rbac.authorization.k8s.io/v1"


def test_t31_a_group_of_which_nothing_is_left_is_gone(old: Rehearsed) -> None:
    """The server itself goes on to work on what it has stored there."""
    api, headers = old
    for path in (FLOW_CONTROL, f"{FLOW_CONTROL}/v1beta1", f"{FLOW_CONTROL}/v1beta1/flowschemas"):
        answer = api.get(path, headers=headers)
        assert (answer.status, answer.body) == (404, b"404 page not found\n")
        assert not headers or api.get(path).status == 200
    names = [group["name"] for group in api.get("/apis", headers=headers).ok()["groups"]]
    assert FLOW_CONTROL.removeprefix("/apis/") not in names
    assert "x-kubernetes-pf-flowschema-uid" in api.get("/api/v1/pods", headers=headers).headers
