"""Who may change which part of a ResourceClaim's status.

Source: k8s.io/kubernetes, pkg/registry/resource/authorization.go (release 1.36): an allocation and its
consumers need `resourceclaims/binding`, the state of a device `resourceclaims/driver`, named by its driver.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.support.api import STRATEGIC_PATCH, Answer, Api, until_status
from tests.support.fixtures import api_with
from tests.support.rbac import RBAC, bind, rule
from tests.support.server_process import ServerProcess

GROUP: Final = "/apis/resource.k8s.io"
CLAIMS: Final = f"{GROUP}/v1/namespaces/default/resourceclaims"
DRIVER: Final = "d.example.com"
NODE: Final = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
DEVICE: Final = {"driver": DRIVER, "pool": "p", "device": "1"}
ALLOCATION: Final[dict[str, Any]] = {
    "devices": {"results": [{"request": "r", **DEVICE}]},
    "nodeSelector": {"nodeSelectorTerms": [NODE]},
}
CONSUMER: Final = {"resource": "pods", "name": "p", "uid": "u"}
ALLOCATED: Final = {"allocation": ALLOCATION, "reservedFor": [CONSUMER], "devices": [DEVICE]}
READY: Final = {
    "type": "Ready",
    "status": "True",
    "reason": "R",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
AGENT: Final = "system:serviceaccount:default:agent"
_numbers: Final = itertools.count(1)
BINDING: Final = [("FieldValueForbidden", "status.allocation")]
DEVICES: Final = [("FieldValueForbidden", "status.devices")]


api = api_with(
    "--runtime-config=resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true", "--authorization-mode=RBAC"
)


def on_claims(verbs: str, subresource: str, *names: str) -> dict[str, Any]:
    return rule(verbs, f"resourceclaims/{subresource}", *names, group="resource.k8s.io")


STATUS: Final = on_claims("get update patch", "status")


class Caller:
    """A user who may write the status of claims, and what else some rules allow."""

    def __init__(self, api: Api, user: str, *rules: dict[str, Any], node: str = "") -> None:
        """user: empty for a new one. node: where a service account's pod runs, as its token has it."""
        name = f"caller-{next(_numbers)}"
        self._api, self.name = api, user or name
        self._headers = {"Impersonate-User": self.name}
        if node:
            self._headers["Impersonate-Extra-authentication.kubernetes.io%2Fnode-name"] = node
        role = {"metadata": {"name": name}, "rules": [STATUS, *rules]}
        api.post(f"{RBAC}/clusterroles", role).ok()
        bind(api, name, name, self.name)
        self._role = name

    def __enter__(self) -> Caller:
        """Roles count a moment after they were written: asks until the last rule does."""
        until_status(404, lambda: self.send("PATCH", f"{CLAIMS}/absent/status", {}, type="merge"))
        return self

    def __exit__(self, *_: object) -> None:
        """Takes its permissions away, and waits until they are gone."""
        self._api.delete(f"{RBAC}/clusterrolebindings/{self._role}").ok()
        until_status(403, lambda: self.send("PATCH", f"{CLAIMS}/absent/status", {}, type="merge"))

    def send(self, method: str, path: str, body: Any, *, type: str = "json") -> Answer:  # noqa: A002
        return self._api.send(method, path, body, type=type, headers=self._headers)


def claim(api: Api, status: dict[str, Any] | None = None) -> str:
    """Creates a claim with a status. Returns the path of the status."""
    name = f"claim-{next(_numbers)}"
    request = {"name": "r", "exactly": {"deviceClassName": "c"}}
    api.post(CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}).ok()
    path = f"{CLAIMS}/{name}/status"
    if status is not None:
        api.patch(path, {"status": status}).ok()
    return path


# What is allowed beside the status, the status before, its change, and the causes of a refusal.
NOTHING: Final[tuple[dict[str, Any], ...]] = ()
BINDS: Final = (on_claims("patch", "binding"),)
DRIVES: Final = (on_claims("arbitrary-node:patch", "driver", DRIVER),)
PATCHES: Final[dict[str, tuple[Sequence[dict[str, Any]], Any, Any, list[tuple[str, str]]]]] = {
    "an allocation": (NOTHING, None, {"allocation": ALLOCATION}, BINDING),
    "an allocation, by who binds": (BINDS, None, {"allocation": ALLOCATION}, []),
    "an allocation, by who binds by another verb": (
        [on_claims("update", "binding")],
        None,
        {"allocation": ALLOCATION},
        BINDING,
    ),
    "an allocation, by who binds claims of one name": (
        [on_claims("patch", "binding", "claim")],
        None,
        {"allocation": ALLOCATION},
        BINDING,
    ),
    "a consumer": (NOTHING, {"allocation": ALLOCATION}, {"reservedFor": [CONSUMER]}, BINDING),
    "a consumer, by who binds": (BINDS, {"allocation": ALLOCATION}, {"reservedFor": [CONSUMER]}, []),
    "no consumer any more": (NOTHING, ALLOCATED, {"reservedFor": None}, BINDING),
    "nothing any more": (NOTHING, ALLOCATED, {"allocation": None, "reservedFor": None}, BINDING),
    "nothing any more, by who binds": (BINDS, ALLOCATED, {"allocation": None, "reservedFor": None}, []),
    "what is invalid, too": (
        NOTHING,
        ALLOCATED,
        {"allocation": None},
        [*BINDING, ("FieldValueForbidden", "status.reservedFor")],
    ),
    "nothing": (NOTHING, ALLOCATED, {"reservedFor": [CONSUMER]}, []),
    "a device": (NOTHING, {"allocation": ALLOCATION}, {"devices": [DEVICE]}, DEVICES),
    "a device, by who binds": (BINDS, {"allocation": ALLOCATION}, {"devices": [DEVICE]}, DEVICES),
    "a device, by its driver": (DRIVES, {"allocation": ALLOCATION}, {"devices": [DEVICE]}, []),
    "a device, by another driver": (
        [on_claims("arbitrary-node:patch", "driver", "e.example.com")],
        {"allocation": ALLOCATION},
        {"devices": [DEVICE]},
        DEVICES,
    ),
    "a device, by a verb without a prefix": (
        [on_claims("patch update", "driver", DRIVER)],
        {"allocation": ALLOCATION},
        {"devices": [DEVICE]},
        DEVICES,
    ),
    "a device, by who is on no node": (
        [on_claims("associated-node:patch", "driver", DRIVER)],
        {"allocation": ALLOCATION},
        {"devices": [DEVICE]},
        DEVICES,
    ),
    "a device's state": (NOTHING, ALLOCATED, {"devices": [{**DEVICE, "conditions": [READY]}]}, DEVICES),
    "no device any more": (NOTHING, ALLOCATED, {"devices": None}, DEVICES),
    "all of it, by a driver": (DRIVES, None, ALLOCATED, BINDING),
    "all of it, by who binds": (BINDS, None, ALLOCATED, DEVICES),
    "all of it": (NOTHING, None, ALLOCATED, [*BINDING, *DEVICES]),
    "all of it, by who may do both": ([*BINDS, *DRIVES], None, ALLOCATED, []),
}


@pytest.mark.parametrize(("rules", "before", "change", "causes"), PATCHES.values(), ids=PATCHES)
def test_who_may_change_the_status_of_a_claim(
    api: Api, rules: Sequence[dict[str, Any]], before: Any, change: Any, causes: list[tuple[str, str]]
) -> None:
    path = claim(api, before)
    with Caller(api, "", *rules) as caller:
        for query in ("?dryRun=All", ""):
            answer = caller.send("PATCH", path + query, {"status": change}, type="merge")
            if not causes:
                answer.ok()
            else:
                assert (answer.status, answer.causes) == (422, causes)


def with_status(api: Api, path: str, status: dict[str, Any]) -> dict[str, Any]:
    return {**api.get(path).ok(), "status": status}


FORMS: Final = ("merge", "json-patch", "strategic", "apply", "put")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1beta2"])
def test_the_form_and_the_version_of_a_write_do_not_matter(api: Api, form: str, version: str) -> None:
    path = claim(api).replace("/v1/", f"/{version}/")
    name, status = path.split("/")[-2], {"allocation": ALLOCATION}
    patches: dict[str, tuple[Any, str]] = {
        "merge": ({"status": status}, "merge"),
        "strategic": ({"status": status}, STRATEGIC_PATCH),
        "json-patch": ([{"op": "add", "path": "/status", "value": status}], "json-patch"),
        "apply": (
            {
                "apiVersion": f"resource.k8s.io/{version}",
                "kind": "ResourceClaim",
                "metadata": {"name": name},
                "status": status,
            },
            "application/apply-patch+yaml",
        ),
    }
    verb = "update" if form == "put" else "patch"

    def write(caller: Caller) -> Answer:
        if form == "put":
            return caller.send("PUT", path, with_status(api, path, status))
        body, type_ = patches[form]
        query = "?fieldManager=m" if form == "apply" else ""
        return caller.send("PATCH", path + query, body, type=type_)

    other = "patch" if form == "put" else "update"
    with Caller(api, "", on_claims(other, "binding")) as caller:
        refused = write(caller)
        assert (refused.status, refused.causes) == (422, BINDING)
        assert refused.message.endswith(
            "status.allocation: Forbidden: changing status.allocation or status.reservedFor requires "
            f'resource="resourceclaims/binding", verb="{verb}" permission: resourceclaims.resource.k8s.io is '
            f'forbidden: User "{caller.name}" cannot {verb} resource "resourceclaims/binding" in API group '
            '"resource.k8s.io" at the cluster scope'
        )
    with Caller(api, "", on_claims(verb, "binding")) as caller:
        write(caller).ok()


# Who it is, on which node, what is allowed, and the verbs that a refusal names; none if it is allowed.
ASSOCIATED: Final = on_claims("associated-node:patch", "driver", DRIVER)
BOTH: Final = "associated-node:patch arbitrary-node:patch"
ON_NODES: Final[dict[str, tuple[str, str, Sequence[dict[str, Any]], str]]] = {
    "an agent on the node": (AGENT, "n1", [ASSOCIATED], ""),
    "an agent on another node": (AGENT, "n2", [ASSOCIATED], "arbitrary-node:patch"),
    "an agent on no node": (AGENT, "", [ASSOCIATED], "arbitrary-node:patch"),
    "no service account": ("somebody", "n1", [ASSOCIATED], "arbitrary-node:patch"),
    "an agent on the node, for all nodes": (AGENT, "n1", DRIVES, ""),
    "an agent on another node, for all nodes": (AGENT, "n2", DRIVES, ""),
    "an agent on the node, for nothing": (AGENT, "n1", NOTHING, BOTH),
}


@pytest.mark.parametrize(("user", "node", "rules", "verbs"), ON_NODES.values(), ids=ON_NODES)
def test_agents_tell_of_devices_of_their_own_node(
    api: Api, user: str, node: str, rules: Sequence[dict[str, Any]], verbs: str
) -> None:
    path = claim(api, {"allocation": ALLOCATION})
    with Caller(api, user, *rules, node=node) as caller:
        answer = caller.send("PATCH", path, {"status": {"devices": [DEVICE]}}, type="merge")
        if not verbs:
            answer.ok()
            return
        assert answer.causes == DEVICES
        first = verbs.split()[0]
        assert answer.message.endswith(
            'status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver", '
            f'verb="[{verbs}]" permission: resourceclaims.resource.k8s.io "{DRIVER}" is forbidden: User '
            f'"{user}" cannot {first} resource "resourceclaims/driver" in API group "resource.k8s.io" in the '
            'namespace "default"'
        )


# Where there is no gate yet, or where it is off, permission for the status is enough.
OFF: Final = {
    "the gate is off": "--feature-gates=DRAResourceClaimGranularStatusAuthorization=false",
    "the release is older": "--emulated-version=1.35",
}


@pytest.mark.parametrize("flag", OFF.values(), ids=OFF)
def test_permission_for_the_status_is_enough_without_the_gate(
    tmp_path_factory: pytest.TempPathFactory, flag: str
) -> None:
    path = tmp_path_factory.mktemp("claims")
    with ServerProcess(path, flag, "--authorization-mode=RBAC") as server, Api(server) as api:
        status = claim(api)
        with Caller(api, "") as caller:
            caller.send("PATCH", status, {"status": ALLOCATED}, type="merge").ok()
