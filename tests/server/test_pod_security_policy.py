"""Pods on a server of release 1.24 with the admission plugin PodSecurityPolicy. Rows T11, T30."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import pytest

from tests.support.api import Answer, Api
from tests.support.eventually import eventually
from tests.support.server_process import ServerProcess

POLICIES: Final = "/apis/policy/v1beta1/podsecuritypolicies"
PODS: Final = "/api/v1/namespaces/default/pods"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
PSP: Final = "kubernetes.io/psp"
ANY: Final[dict[str, Any]] = {
    "runAsUser": {"rule": "RunAsAny"},
    "seLinux": {"rule": "RunAsAny"},
    "fsGroup": {"rule": "RunAsAny"},
    "supplementalGroups": {"rule": "RunAsAny"},
    "volumes": ["*"],
}
# By name. Who may use them is said by roles, of each test's own users.
POLICY_SPECS: Final[dict[str, dict[str, Any]]] = {
    "a-ranges": {**ANY, "runAsUser": {"rule": "MustRunAs", "ranges": [{"min": 7, "max": 9}]}},
    "b-open": ANY,
    "c-privileged": {**ANY, "privileged": True},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("psp") / "data"
    flags = ("--emulated-version=1.24", "--enable-admission-plugins=PodSecurityPolicy")
    with ServerProcess(directory, *flags) as server, closing(Api(server)) as api:
        for name, spec in POLICY_SPECS.items():
            api.post(POLICIES, {"metadata": {"name": name}, "spec": spec}).ok()
        yield server


@pytest.fixture
def api(server: ServerProcess) -> Iterator[Api]:
    with closing(Api(server)) as api:
        yield api


def pod(name: str, privileged: bool = False, account: str = "", **metadata: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", "image": "i"}
    if privileged:
        container["securityContext"] = {"privileged": True}
    spec = {"containers": [container], **({"serviceAccountName": account} if account else {})}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


class User:
    """A user who may do everything with pods, and `use` some policies, and is impersonated."""

    def __init__(self, api: Api, name: str, *policies: str, group: str = "policy") -> None:
        self._api, self._headers = api, {"Impersonate-User": name}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
        allow(api, name, subject, {"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]})
        if policies:
            allow(api, f"{name}-use", subject, may_use(*policies, group=group))
            first = policies[0]
            asked = {"group": group, "resource": "podsecuritypolicies", "verb": "use", "name": first}
        else:
            asked = {"resource": "pods", "verb": "create"}
        review = {"spec": {"user": name, "resourceAttributes": {**asked, "namespace": "default"}}}
        reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        asyncio.run(eventually(lambda: api.post(reviews, review).ok()["status"]["allowed"]))

    def create(self, document: dict[str, Any]) -> Answer:
        return self._api.post(PODS, document, headers=self._headers)

    def patch(self, name: str, patch: dict[str, Any]) -> Answer:
        type_ = "application/merge-patch+json"
        return self._api.send("PATCH", f"{PODS}/{name}", patch, type=type_, headers=self._headers)


def may_use(*policies: str, group: str = "policy") -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "resources": ["podsecuritypolicies"],
        "resourceNames": list(policies),
        "verbs": ["use"],
    }


def allow(api: Api, name: str, subject: dict[str, str], *rules: dict[str, Any]) -> None:
    """Gives rights in the namespace `default`."""
    roles = f"{RBAC}/namespaces/default"
    api.post(f"{roles}/roles", {"metadata": {"name": name}, "rules": rules}).ok()
    of = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    api.post(f"{roles}/rolebindings", {"metadata": {"name": name}, "roleRef": of, "subjects": [subject]}).ok()


def taken(answer: Answer) -> str:
    return str(answer.ok()["metadata"]["annotations"][PSP])


def test_who_may_use_no_policy_creates_no_pods(api: Api) -> None:
    answer = User(api, "nobody").create(pod("n"))
    assert (answer.status, answer.message) == (
        403,
        'pods "n" is forbidden: PodSecurityPolicy: unable to admit pod: []',
    )


def test_a_policy_that_changes_nothing_goes_before_one_that_does(api: Api) -> None:
    user = User(api, "chooser", "a-ranges", "b-open")
    answer = user.create(pod("chosen"))
    assert taken(answer) == "b-open"
    assert "securityContext" not in answer.json["spec"]["containers"][0]


def test_what_a_policy_fills_in_is_stored_and_can_be_changed_no_more(api: Api) -> None:
    user = User(api, "filler", "a-ranges", group="extensions")
    answer = user.create(pod("filled"))
    assert taken(answer) == "a-ranges"
    assert answer.json["spec"]["containers"][0]["securityContext"]["runAsUser"] == 7
    assert taken(user.patch("filled", {"metadata": {"labels": {"a": "b"}}})) == "a-ranges"


def test_a_refusal_tells_of_the_policies_that_may_be_used(api: Api) -> None:
    answer = User(api, "modest", "a-ranges", "b-open").create(pod("p", privileged=True))
    text = "spec.containers[0].securityContext.privileged: Invalid value: true: Privileged containers are not"
    assert (answer.status, answer.message) == (
        403,
        f'pods "p" is forbidden: PodSecurityPolicy: unable to admit pod: [{text} allowed {text} allowed]',
    )


def test_the_service_account_of_a_pod_may_use_policies_too(api: Api) -> None:
    api.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "strong"}}).ok()
    subject = {"kind": "ServiceAccount", "namespace": "default", "name": "strong"}
    allow(api, "strong", subject, may_use("c-privileged"))
    user = User(api, "deployer", "b-open")

    def created() -> Answer | None:
        answer = user.create(pod("s", privileged=True, account="strong"))
        return answer if answer.status == 201 else None

    answer = asyncio.run(eventually(created))
    assert answer is not None
    assert taken(answer) == "c-privileged"
    assert user.create(pod("t", privileged=True)).status == 403


def test_an_update_by_somebody_without_the_policy(api: Api) -> None:
    """Is refused, unless it changes no more than the garbage collector does."""
    owner = User(api, "owner", "c-privileged")
    taken(owner.create(pod("q", privileged=True)))
    other = User(api, "other", "b-open")
    refused = other.patch("q", {"metadata": {"labels": {"a": "b"}}})
    assert refused.status == 403
    assert refused.message.startswith('pods "q" is forbidden: PodSecurityPolicy: unable to validate pod: [')
    assert other.patch("q", {"metadata": {"finalizers": ["acme.com/f"]}}).status == 200


def test_without_policies_there_are_no_pods(api: Api) -> None:
    """Also none of the administrator, until the plugin knows a policy again."""

    def refused() -> Answer | None:
        answer = api.post(PODS, pod("m"))
        return answer if answer.status == 403 else None

    for name in POLICY_SPECS:
        api.delete(f"{POLICIES}/{name}").ok()
    try:
        answer = asyncio.run(eventually(refused))
        text = "no providers available to validate pod request"
        assert answer is not None
        assert answer.message == f'pods "m" is forbidden: PodSecurityPolicy: {text}'
    finally:
        for name, spec in POLICY_SPECS.items():
            api.post(POLICIES, {"metadata": {"name": name}, "spec": spec}).ok()
