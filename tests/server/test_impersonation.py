"""Impersonation, and the rights that it needs. Row O08.

The recorded scenarios auth/impersonation and auth/impersonation-forbidden have the usual cases.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from apiserver.endpoints.connection import HEADER_BYTES_MAX, HEADERS_MAX
from tests.support.api import Api
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl, each_version, program
from tests.support.metrics import metrics_of
from tests.support.raw import raw_connection, read_all
from tests.support.rbac import RBAC, bind, binding
from tests.support.server_process import ServerProcess

REVIEWS: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
AUTHENTICATED: Final = "system:authenticated"
IN_REVIEWS: Final = "authentication.k8s.io"


class Reply(NamedTuple):
    status: int
    document: Any

    @property
    def message(self) -> str:
        return str(self.document["message"])

    @property
    def user(self) -> Any:
        """The user that a SelfSubjectReview shows."""
        assert self.status == 201, self.document
        return self.document["status"]["userInfo"]


def ask(
    server: ServerProcess,
    *lines: str | bytes,
    method: str = "POST",
    path: str = REVIEWS,
    token: str = "admin-token",
) -> Reply:
    """Send a request with header lines as they are; names may repeat."""
    head = [
        f"{method} {path} HTTP/1.1",
        "Host: server",
        f"Authorization: Bearer {token}",
        "Connection: close",
    ]
    if method == "POST":
        head += ["Content-Type: application/json", "Content-Length: 2"]
    encoded = [line if isinstance(line, bytes) else line.encode() for line in (*head, *lines, "", "")]
    with raw_connection(server) as connection:
        connection.sendall(b"\r\n".join(encoded) + (b"{}" if method == "POST" else b""))
        answer, _, body = read_all(connection).partition(b"\r\n\r\n")
    return Reply(int(answer.split()[1]), json.loads(body))


WHO: Final[dict[str, tuple[list[str], dict[str, Any]]]] = {
    "a user": (["Impersonate-User: jane"], {"username": "jane", "groups": [AUTHENTICATED]}),
    "more of a user": (
        [
            *("impersonate-user: jane", "IMPERSONATE-GROUP: g2", "Impersonate-Group: g1"),
            *("Impersonate-Uid: u-1", "Impersonate-Extra-Acme.com%2fProject: p", "Impersonate-Extra-a: 2"),
            "Impersonate-Extra-A: 1",
        ],
        {
            "username": "jane",
            "uid": "u-1",
            "groups": ["g2", "g1", AUTHENTICATED],
            "extra": {"a": ["2", "1"], "acme.com/project": ["p"]},
        },
    ),
    "an account that nobody has made": (
        ["Impersonate-User: system:serviceaccount:none:x"],
        {
            "username": "system:serviceaccount:none:x",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:none", AUTHENTICATED],
        },
    ),
    "a name in any writing": (
        ["Impersonate-User: jürgen 漢", "Impersonate-Group: 組"],
        {"username": "jürgen 漢", "groups": ["組", AUTHENTICATED]},
    ),
    "the first of two": (
        ["Impersonate-User: jane", "Impersonate-User: admin"],
        {"username": "jane", "groups": [AUTHENTICATED]},
    ),
    "nobody": (
        ["Impersonate-User: ", "Impersonate-Foo: x"],
        {"username": "admin", "uid": "uid-admin", "groups": ["system:masters", AUTHENTICATED]},
    ),
}


@pytest.mark.parametrize(("lines", "user"), WHO.values(), ids=WHO)
def test_system_masters_may_impersonate_anybody(
    server: ServerProcess, lines: list[str], user: dict[str, Any]
) -> None:
    assert ask(server, *lines).user == user


def test_the_rights_of_the_caller_do_not_count(server: ServerProcess, api: Api, namespace: str) -> None:
    """What the caller may do is not lent, for whatever is asked."""
    configmaps = f"/api/v1/namespaces/{namespace}/configmaps"
    jane = {"Impersonate-User": "jane"}
    for said in (
        api.get(configmaps, headers=jane),
        api.get(f"{configmaps}?watch=1", headers=jane),
        api.post(configmaps, {"metadata": {"name": "a"}}, headers=jane),
        api.delete(f"{configmaps}/a", headers=jane),
    ):
        assert (said.status, said.reason) == (403, "Forbidden")
        assert 'forbidden: User "jane" cannot ' in said.message
    assert api.get(configmaps).ok()["items"] == []

    anybody = {"Impersonate-User": "system:anonymous"}
    assert api.get("/version", headers=anybody).status == 200
    assert api.get("/api", headers=jane).status == 200
    assert api.get("/api", headers=anybody).message == (
        'forbidden: User "system:anonymous" cannot get path "/api"'
    )
    assert 'User "jane" cannot get path "/metrics"' in api.get("/metrics", headers=jane).message


def test_a_watch_in_the_name_of_another(server: ServerProcess, api: Api, namespace: str) -> None:
    configmaps = f"/api/v1/namespaces/{namespace}/configmaps"
    api.post(configmaps, {"metadata": {"name": "a"}}).ok()
    as_master = {"Impersonate-User": "jane", "Impersonate-Group": "system:masters"}
    with api.watch(f"{configmaps}?watch=1", **as_master) as events:
        assert events.take(1) == [("ADDED", "a")]


def refusal(caller: str, resource: str, name: str, group: str = "", namespace: str = "") -> str:
    """resource: with its subresource."""
    what = resource.partition("/")[0] + (f".{group}" if group else "") + (f' "{name}"' if name else "")
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    why = f'User "{caller}" cannot impersonate resource "{resource}" in API group "{group}" {where}'
    return f"{what} is forbidden: {why}"


# What is asked for, and the mode whose right is missing first.
REFUSED: Final[dict[str, tuple[list[str], str]]] = {
    "a user": (["Impersonate-User: jane"], "user-info"),
    "oneself": (["Impersonate-User: alice"], "user-info"),
    "masters": (["Impersonate-User: jane", "Impersonate-Group: system:masters"], "user-info"),
    "an account": (["Impersonate-User: system:serviceaccount:default:x"], "serviceaccount"),
    "a node": (["Impersonate-User: system:node:n"], "arbitrary-node"),
}


@pytest.mark.parametrize(("lines", "mode"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize(("token", "caller"), [("alice-token", "alice"), ("", "system:anonymous")])
def test_who_has_no_rights_is_nobody_else(
    server: ServerProcess, lines: list[str], mode: str, token: str, caller: str
) -> None:
    cannot = f'User "{caller}" cannot impersonate-on:{mode}'
    reviews, namespaces = "selfsubjectreviews", "namespaces"
    for path, message in (
        (
            REVIEWS,
            f'{reviews}.{IN_REVIEWS} is forbidden: {cannot}:create resource "{reviews}" in API group "',
        ),
        (
            "/api/v1/namespaces",
            f'{namespaces} is forbidden: {cannot}:create resource "{namespaces}" in API g',
        ),
        ("/version", f'forbidden: {cannot}:post path "/version"'),
    ):
        said = ask(server, *lines, path=path, token=token)
        assert said.status == 403
        assert said.message.startswith(message)


LEGACY_REFUSED: Final[dict[str, tuple[list[str], tuple[str, ...]]]] = {
    "a user": (["Impersonate-User: jane"], ("users", "jane")),
    "an account": (
        ["Impersonate-User: system:serviceaccount:default:x"],
        ("serviceaccounts", "x", "", "default"),
    ),
    "a node": (["Impersonate-User: system:node:n"], ("users", "system:node:n")),
}
# Flags without which only `impersonate` counts.
ONLY_LEGACY: Final[dict[str, tuple[str, ...]]] = {
    "the gate is off": ("--feature-gates=ConstrainedImpersonation=false",),
    "a release before": ("--emulated-version=1.35",),
}


@pytest.mark.parametrize("flags", ONLY_LEGACY.values(), ids=ONLY_LEGACY)
def test_without_the_gate_only_one_verb_counts(flags: tuple[str, ...], tmp_path: Path) -> None:
    with ServerProcess(tmp_path, *flags) as server:
        for lines, refused in LEGACY_REFUSED.values():
            said = ask(server, *lines, token="alice-token")
            assert (said.status, said.message) == (403, refusal("alice", *refused))
        assert ask(server, "Impersonate-User: system:node:n").user["groups"] == [AUTHENTICATED]


def service_account(api: Api, name: str) -> str:
    """Makes a service account in the namespace `default`; returns a token of it."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    api.post(accounts, {"metadata": {"name": name}}).ok()
    return str(api.post(f"{accounts}/{name}/token", {"spec": {}}).ok()["status"]["token"])


def bind_account(api: Api, role: str, name: str) -> None:
    """Binds a cluster role for everything to a service account."""
    bound = binding(name, role) | {"subjects": [account_subject(name)]}
    api.post(f"{RBAC}/clusterrolebindings", bound).ok()


def account_subject(name: str) -> dict[str, str]:
    return {"kind": "ServiceAccount", "namespace": "default", "name": name}


def test_a_node_has_its_groups_if_it_is_impersonated_as_such(server: ServerProcess, api: Api) -> None:
    """But not by who has last used legacy impersonation: kube-apiserver goes on with that first."""
    token = service_account(api, "boss")
    bind_account(api, "cluster-admin", "boss")
    asyncio.run(eventually(partial(_is_allowed, server, "Impersonate-User: jane", token)))
    node = "Impersonate-User: system:node:n"
    assert ask(server, node, token=token).user["groups"] == ["system:nodes", AUTHENTICATED]
    masters = ("Impersonate-User: jane", "Impersonate-Group: system:masters")
    assert ask(server, *masters, token=token).user["groups"] == ["system:masters", AUTHENTICATED]
    assert ask(server, node, token=token).user["groups"] == [AUTHENTICATED]


def may(group: str, resource: str, name: str, verb: str = "impersonate") -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [resource], "resourceNames": [name], "verbs": [verb]}


BOT: Final = "system:serviceaccount:default:bot"
# Whom the bot may impersonate: where the role is, of what kind, and its rules.
ROLES: Final = (
    (
        RBAC,
        "ClusterRole",
        [
            may("", "users", "jane"),
            may("", "groups", "g"),
            may(IN_REVIEWS, "uids", "u-1"),
            may(IN_REVIEWS, "userextras/scopes", "a"),
        ],
    ),
    (f"{RBAC}/namespaces/default", "Role", [may("", "serviceaccounts", "x")]),
)


@pytest.fixture(scope="session")
def bot_token(server: ServerProcess) -> str:
    """The token of a service account that may impersonate certain users, for as long as the server runs."""
    with Api(server) as api:
        token = service_account(api, "bot")
        meta = {"metadata": {"name": "impersonator"}}
        for place, role, rules in ROLES:
            api.post(f"{place}/{role.lower()}s", {**meta, "rules": rules}).ok()
            bound = binding("impersonator", "impersonator", kind=role) | {
                "subjects": [account_subject("bot")]
            }
            api.post(f"{place}/{role.lower()}bindings", bound).ok()
    # Roles count a moment after they were written.
    for line in ("Impersonate-User: jane", "Impersonate-User: system:serviceaccount:default:x"):
        asyncio.run(eventually(partial(_is_allowed, server, line, token)))
    return token


def _is_allowed(server: ServerProcess, line: str, token: str) -> bool:
    return ask(server, line, token=token).status == 201


@pytest.fixture
def bot(server: ServerProcess, bot_token: str) -> Iterator[Api]:
    with Api(server, bot_token) as bot:
        yield bot


# What the bot asks for, and what of it is refused; nothing where it may.
PARTS: Final[dict[str, tuple[dict[str, str], tuple[str, ...]]]] = {
    "everything it may": ({"User": "jane", "Group": "g", "Uid": "u-1", "Extra-Scopes": "a"}, ()),
    "an account": ({"User": "system:serviceaccount:default:x"}, ()),
    "another user": ({"User": "bob"}, ("users", "bob")),
    "another group": ({"User": "jane", "Group": "system:masters"}, ("groups", "system:masters")),
    "an empty group": ({"User": "jane", "Group": ""}, ("groups", "")),
    "another uid": ({"User": "jane", "Uid": "u-2"}, ("uids", "u-2", IN_REVIEWS)),
    "another value": ({"User": "jane", "Extra-Scopes": "b"}, ("userextras/scopes", "b", IN_REVIEWS)),
    "another key": (
        {"User": "jane", "Extra-Acme.com%2fproject": "a"},
        ("userextras/acme.com/project", "a", IN_REVIEWS),
    ),
    "an account elsewhere": (
        {"User": "system:serviceaccount:kube-system:x"},
        ("serviceaccounts", "x", "", "kube-system"),
    ),
    "what is no account": (
        {"User": "system:serviceaccount:default:x:y"},
        ("users", "system:serviceaccount:default:x:y"),
    ),
}


@pytest.mark.parametrize(("asked", "refused"), PARTS.values(), ids=PARTS)
def test_every_impersonated_attribute_needs_a_right(
    bot: Api, asked: dict[str, str], refused: tuple[str, ...]
) -> None:
    answer = bot.post(REVIEWS, {}, headers={f"Impersonate-{name}": value for name, value in asked.items()})
    if refused:
        assert (answer.status, answer.message) == (403, refusal(BOT, *refused))
    else:
        assert answer.ok()["status"]["userInfo"]["username"] == asked["User"]


def test_one_refused_value_refuses_all(server: ServerProcess, bot_token: str) -> None:
    jane = ("Impersonate-User: jane", "Impersonate-Extra-Scopes: a", "Impersonate-Group: g")
    assert ask(server, *jane, token=bot_token).user["extra"] == {"scopes": ["a"]}
    assert ask(server, *jane, "Impersonate-Extra-Scopes: b", token=bot_token).status == 403
    assert ask(server, *jane, "Impersonate-Group: h", token=bot_token).status == 403


def test_the_next_request_is_the_callers_own(bot: Api) -> None:
    """Nothing stays with the connection."""
    for headers, name in (({"Impersonate-User": "jane"}, "jane"), ({}, BOT), ({"Impersonate-User": ""}, BOT)):
        review = bot.post(REVIEWS, {}, headers=headers).ok()
        assert review["status"]["userInfo"]["username"] == name


WRONG: Final[dict[str, tuple[list[str | bytes], str]]] = {
    "a group without a user": (["Impersonate-Group: g"], 'requested &user.DefaultInfo{Name:"", '),
    "an empty user with a group": (
        ["Impersonate-User:", "Impersonate-Group: g"],
        "without impersonating a user name",
    ),
    "extra without a user": (
        ["Impersonate-Extra-a: b"],
        'Extra:map[string][]string{"a":[]string{"b"}}} without',
    ),
    "a name that is not UTF-8": ([b"Impersonate-User: j\xfcrgen"], "not UTF-8"),
    "a key that is not UTF-8": (["Impersonate-User: jane", "Impersonate-Extra-%ff: x"], "not UTF-8"),
    "a control character": (["Impersonate-User: a\1b"], ""),
    "a second line": (["Impersonate-User: jane", " doe"], ""),
    "space before the colon": (["Impersonate-User : jane"], ""),
    "a header that is too long": ([f"Impersonate-User: {'x' * (HEADER_BYTES_MAX + 1)}"], ""),
    "too many headers": (["Impersonate-User: jane", *["Impersonate-Group: g"] * HEADERS_MAX], ""),
    "more than is shown": (["Impersonate-Group: " + "g" * 60_000] * 20, "ggg... without impersonating"),
}


@pytest.mark.parametrize(("lines", "message"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("path", ["/api/v1/namespaces", "/version", "/api/v1/namespaces?watch=1"])
def test_invalid_impersonation_headers(
    server: ServerProcess, lines: list[str | bytes], message: str, path: str
) -> None:
    said = ask(server, *lines, method="GET", path=path)
    assert (said.status, said.document["reason"]) == (400, "BadRequest")
    assert message in said.message
    assert len(said.message) < 10_000


@pytest.mark.kubectl
@pytest.mark.parametrize("version", each_version(0, -1))
def test_kubectl_as_somebody_else(
    version: str, server: ServerProcess, namespace: str, tmp_path: Path
) -> None:
    kubectl = Kubectl(program(version), server.kubeconfig, namespace, tmp_path)
    asked = ("--as=jane", "--as-group=g", "--as-group=h", "--as-uid=u-1")
    assert kubectl.json("auth", "whoami", *asked)["status"]["userInfo"] == {
        "username": "jane",
        "uid": "u-1",
        "groups": ["g", "h", AUTHENTICATED],
    }
    assert kubectl("create", "cm", "a", "--as=jane", "--as-group=system:masters") == "configmap/a created\n"
    assert kubectl.run("auth", "can-i", "get", "cm", "--as=jane").stdout == "no\n"
    end = kubectl.run("get", "cm", "--as=system:serviceaccount:default:x")
    assert '(Forbidden): configmaps is forbidden: User "system:serviceaccount:default:x" cannot' in end.stderr


@pytest.mark.kubectl
@pytest.mark.parametrize("version", each_version(-1))
def test_kubectl_with_a_right_to_list_as_somebody_else(
    version: str, server: ServerProcess, api: Api, namespace: str, tmp_path: Path
) -> None:
    """Constrained impersonation: the account may list as jane, who may do everything, but not write."""
    name = f"lister-{namespace}"
    token = service_account(api, name)
    as_jane = [
        may(IN_REVIEWS, "users", f"jane-{namespace}", "impersonate:user-info"),
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["impersonate-on:user-info:list"]},
        # kubectl asks in jane's name which resources there are, too.
        {"nonResourceURLs": ["/api*"], "verbs": ["impersonate-on:user-info:get"]},
    ]
    api.post(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": as_jane}).ok()
    bind_account(api, name, name)
    user = f"jane-{namespace}"
    bind(api, user, "cluster-admin", user)
    kubectl = Kubectl(program(version), server.kubeconfig, namespace, tmp_path)
    # The certificate in the kubeconfig would count before the token.
    at = (f"--server={server.url}", f"--certificate-authority={server.ca_path}", "--kubeconfig=/dev/null")
    cluster = (*at, f"--token={token}", f"--as={user}")
    lists = partial(kubectl.run, "get", "configmaps", "-o=name", *cluster)
    asyncio.run(eventually(lambda: lists().returncode == 0))
    assert "cannot list resource" in kubectl.run("get", "configmaps", *cluster[:-1]).stderr
    refused = kubectl.run("create", "configmap", "a", *cluster).stderr
    assert (
        f'configmaps is forbidden: User "system:serviceaccount:default:{name}" cannot '
        'impersonate-on:user-info:create resource "configmaps" in API group "" in the namespace '
        f'"{namespace}"'
    ) in refused.replace("\n", " ")
    attempts = 'apiserver_impersonation_attempts_total{decision="allowed",mode="user-info"}'
    assert attempts in metrics_of(api)
