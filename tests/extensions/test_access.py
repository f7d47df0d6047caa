"""Functions that authenticate and authorize requests, and checks of health."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from apiserver.auth.authn.token_cache import TokenResult
from apiserver.extensions import Extension
from apiserver.extensions.hooks import Kind
from apiserver.extensions.host.access import HookTokens
from apiserver.extensions.host.hooks import ExtensionHook, ExtensionHooks
from apiserver.extensions.host.runner import EventSource, ExtensionInfo, HookFailed, HookInfo
from apiserver.metrics.extensions import ExtensionMetrics
from apiserver.testing import ApiServer
from tests.support.api import Api
from tests.support.eventually import until
from tests.support.server_process import ServerProcess

CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
SECRETS: Final = "/api/v1/namespaces/default/secrets"
PODS: Final = "/api/v1/namespaces/default/pods"
WHOAMI: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW: Final = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
MODULE: Final = "tests.extensions.modules.access"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("access")
    with ServerProcess(directory, f"--extension={MODULE}", "--authorization-mode=RBAC").start() as server:
        yield server


USERS: Final[dict[str, dict[str, Any]]] = {
    "full.jane": {
        "username": "jane",
        "uid": "7",
        "groups": ["dev", "system:authenticated"],
        "extra": {"example.com/team": ["a"]},
    },
    "name.joe": {"username": "joe", "groups": ["system:authenticated"]},
}


@pytest.mark.parametrize("token", USERS)
def test_a_function_knows_the_users_of_tokens(server: ServerProcess, token: str) -> None:
    with Api(server, token) as api:
        assert api.post(WHOAMI, REVIEW).ok()["status"]["userInfo"] == USERS[token]


# Token → what the log says of it.
REFUSED: Final = {
    "other.a": "",
    "revoked.a": "",
    "fault.a": r"failed at access\.py:\d+: RuntimeError auditID=",
    "missing.a": r"failed at access\.py:\d+: KeyError auditID=",
    "wrong.a": r"failed: WrongResult: must return a User, a name or None, not int auditID=",
    "slow.a": r"has not returned within 0\.5 s auditID=",
    "\xff\xfe": "",  # not UTF-8
}


@pytest.mark.parametrize("token", REFUSED)
def test_a_token_that_the_function_does_not_accept_is_refused_and_not_logged(
    server: ServerProcess, token: str
) -> None:
    logged_before = len(server.stderr)
    with Api(server, token) as api:
        answer = api.post(WHOAMI, REVIEW)
    assert answer.status == 401
    assert token not in answer.body.decode()
    until(lambda: re.search(REFUSED[token], server.stderr[logged_before:]))
    assert token not in server.stderr
    assert "Traceback" not in server.stderr
    with Api(server, "name.joe") as api:
        assert api.post(WHOAMI, REVIEW).status == 201


WRONG_USERS: Final[dict[str, Any]] = {
    "a name alone": {"username": "x"},
    "a list": ["x"],
    "a number": 5,
    "no name": {"username": "", "uid": "", "groups": [], "extra": {}},
    "groups that are a number": {"username": "x", "uid": "", "groups": 7, "extra": {}},
    "a group that is a number": {"username": "x", "uid": "", "groups": [7], "extra": {}},
    "extra with a number": {"username": "x", "uid": "", "groups": [], "extra": {"a": 5}},
}


@pytest.mark.parametrize("case", WRONG_USERS)
async def test_a_user_with_wrong_types_is_a_failure_of_the_function(case: str) -> None:
    found = await _result_for({"user": WRONG_USERS[case]})
    assert (found.identity, found.is_kept) == (None, False)
    assert found.why.endswith("has returned a user with missing fields or wrong types")


async def test_a_user_with_all_fields_is_accepted() -> None:
    user = {"username": "x", "uid": "1", "groups": ["g"], "extra": {"a": ["b"]}}
    assert (await _result_for({"user": user})).identity is not None


async def test_a_reason_that_quotes_the_token_is_left_out() -> None:
    found = await _result_for({"denied": {"message": f"{'x' * 1_020}secret"}})
    assert (found.identity, found.why) == (None, 'extension "shop" denied the token')


async def test_a_call_with_text_that_is_not_utf_8_fails() -> None:
    with pytest.raises(HookFailed, match="cannot be called: str is not valid UTF-8"):
        await _hook({}).call({"attributes": {"user": "\udcff"}})


class _Worker:
    """A runner whose worker returns the same result to every call."""

    functions = ()
    streams_open = 0

    def __init__(self, result: Mapping[str, Any]) -> None:
        app = Extension("shop")
        app.authenticate()(lambda token: None)
        self.info, self._result = ExtensionInfo.of(app.describe()), result

    async def start(self) -> None: ...

    async def call(self, hook: HookInfo, call: bytes, timeout_s: float | None = None) -> Mapping[str, Any]:
        return self._result

    async def watch(self, hook: HookInfo, call: bytes, timeout_s: float | None = None) -> EventSource:
        raise NotImplementedError

    async def close(self) -> None: ...


def _hook(result: Mapping[str, Any]) -> ExtensionHook:
    hooks = ExtensionHooks(ExtensionMetrics())
    hooks.runners.append(_Worker(result))
    [hook] = hooks.of_kind(Kind.AUTHENTICATE)
    return hook


async def _result_for(result: Mapping[str, Any]) -> TokenResult:
    return await HookTokens(_hook(result), ["api"]).look_up("secret", ["api"])


# verb, path → status, and what the message says.
DECISIONS: Final = {
    "allow": ("GET", CONFIG_MAPS, 200, ""),
    "no opinion, and no role allows": ("GET", PODS, 403, "cannot list resource"),
    "deny": ("GET", SECRETS, 403, 'extension "access" denied the request'),
    "deny with a reason": ("POST", CONFIG_MAPS, 403, "configmaps are full"),
    "an error": ("DELETE", f"{PODS}/a", 403, r"decide (access.py:"),
}


@pytest.mark.parametrize("case", DECISIONS)
def test_a_function_decides_about_requests(server: ServerProcess, case: str) -> None:
    method, path, status, text = DECISIONS[case]
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    with Api(server, "name.reader") as api:
        found = api.send(method, path, config_map if method == "POST" else None)
    assert found.status == status, found.body
    assert text in found.body.decode().replace('\\"', '"')


def test_masters_are_not_decided_about(server: ServerProcess) -> None:
    with Api(server) as api:
        assert api.delete(f"{PODS}/a").status == 404


def test_a_check_of_health_fails_readyz_with_its_name() -> None:
    app = Extension("shop")
    is_broken = False

    @app.healthz()
    async def stock() -> None:
        if is_broken:
            raise RuntimeError("no stock")

    with ApiServer(extensions=[app]) as server:
        code, text = server.request("GET", "/readyz?verbose")
        assert (code, "[+]extension-shop-stock ok" in text) == (200, True)
        is_broken = True
        code, text = server.request("GET", "/readyz?verbose")
        assert (code, "[-]extension-shop-stock failed" in text) == (500, True)
