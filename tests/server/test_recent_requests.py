"""/debug/requests: the last requests that were slow, refused or failed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.server.test_admission_webhooks import Webhook, answer, configure
from tests.support.api import Api
from tests.support.objects import config_map, config_maps
from tests.support.webhook_server import Reply, Review

PATH: Final = "/debug/requests"
_agents = itertools.count()


@pytest.fixture
def agent() -> str:
    """A user agent that no other test has."""
    return f"recent-{next(_agents)}/1"


@pytest.fixture(scope="module")
def webhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    with Webhook(tmp_path_factory.mktemp("webhook")) as webhook:
        yield webhook


def of_agent(api: Api, agent: str, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(f"{PATH}?agent={agent}{query}").ok()["requests"]
    return found


# method, path, body, headers; then user, verb, status, reason, and a part of the message
SECRET: Final = {"metadata": {"name": "UPPER"}, "stringData": {"key": "geheim"}}
REFUSED: Final[dict[str, tuple[str, str, Any, dict[str, str], tuple[str, str, int, str, str]]]] = {
    "wrong credentials": (
        *("GET", "/api/v1/pods", None, {"Authorization": "Bearer wrong"}),
        ("", "list", 401, "Unauthorized", "Unauthorized"),
    ),
    "no permission": (
        *("GET", "/api/v1/secrets", None, {"Authorization": "Bearer alice-token"}),
        ("alice", "list", 403, "Forbidden", 'cannot list resource "secrets"'),
    ),
    "an impersonated user without permission": (
        *("GET", "/api/v1/nodes", None, {"Impersonate-User": "bob"}),
        ("bob", "list", 403, "Forbidden", 'User "bob" cannot list resource "nodes"'),
    ),
    "a body that is not JSON": (
        *("POST", config_maps("default"), b"{", {}),
        ("admin", "create", 400, "BadRequest", ""),
    ),
    "an invalid object": (
        *("POST", config_maps("default"), {"metadata": {"name": "UPPER"}}, {}),
        ("admin", "create", 422, "Invalid", 'ConfigMap "UPPER" is invalid'),
    ),
    "an unknown media type": (
        *("POST", config_maps("default"), b"x", {"Content-Type": "text/x-unknown"}),
        ("admin", "create", 415, "UnsupportedMediaType", ""),
    ),
    "a media type that is not served": (
        *("GET", config_maps("default"), None, {"Accept": "text/x-unknown"}),
        ("admin", "list", 406, "NotAcceptable", ""),
    ),
    "a method that is not allowed": (
        *("POST", PATH, None, {}),
        ("admin", "post", 405, "MethodNotAllowed", ""),
    ),
}


@pytest.mark.parametrize(("method", "path", "body", "headers", "expected"), REFUSED.values(), ids=REFUSED)
def test_a_refused_request_is_listed_with_its_reason(
    api: Api,
    agent: str,
    method: str,
    path: str,
    body: Any,
    headers: dict[str, str],
    expected: tuple[Any, ...],
) -> None:
    sent = {"User-Agent": agent, "Audit-Id": f"id-{agent}", **headers}
    status = api.send(method, path, body, headers=sent).status
    (found,) = of_agent(api, agent)
    user, verb, code, reason, message = expected
    assert status == code
    assert message in found.pop("message")
    assert found.pop("number") > 0
    assert found.pop("time").endswith("Z")
    assert found.pop("milliseconds") >= found.pop("otherMilliseconds") >= 0
    names = {each["name"] for each in found.pop("phases")}
    assert names >= ({"authentication"} if user else set())
    assert found == {
        "outcome": "refused",
        "method": method,
        "verb": verb,
        "path": path,
        "user": user,
        **({"impersonator": "admin"} if "Impersonate-User" in headers else {}),
        "userAgent": agent,
        "auditID": f"id-{agent}",
        "status": code,
        "reason": reason,
        "otherPhases": 0,
    }


EVERYDAY: Final = {
    "a success": ("GET", "/version", None),
    "an object that does not exist": ("GET", f"{config_maps('default')}/none", None),
    "an object that exists": ("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}}),
}


@pytest.mark.parametrize(("method", "path", "body"), EVERYDAY.values(), ids=EVERYDAY)
def test_everyday_requests_are_not_listed(api: Api, agent: str, method: str, path: str, body: Any) -> None:
    api.send(method, path, body, headers={"User-Agent": agent})
    assert of_agent(api, agent) == []


def test_a_slow_request_is_listed_with_where_its_time_went(
    api: Api, agent: str, webhook: Webhook, namespace: str
) -> None:
    async def slow(_: str, review: Review) -> Reply:
        await asyncio.sleep(0.6)
        return answer(review)

    configure(api, namespace, webhook.hook(namespace))
    webhook.replying = slow
    api.post(config_maps(namespace), config_map("a"), headers={"User-Agent": agent}).ok()
    webhook.reset()
    (found,) = of_agent(api, agent)
    assert (found["outcome"], found["status"], found["reason"]) == ("slow", 201, "")
    phases = {each["name"]: each for each in found["phases"]}
    assert phases["webhook"]["detail"] == f"127.0.0.1:{webhook.port}/a.example.com"
    assert found["milliseconds"] >= phases["webhook"]["milliseconds"] >= 600
    assert {"authentication", "authorization", "validating admission", "storage create"} <= set(phases)


def test_no_values_of_secrets_are_listed(api: Api, agent: str) -> None:
    path = "/api/v1/namespaces/default/secrets"
    bad = {"metadata": {"name": "a"}, "data": {"not a key!": "Z2VoZWlt"}, "type": "geheim type"}
    headers = {"User-Agent": agent}
    assert api.post(path, bad, headers=headers).status == 422
    assert api.get(f"{path}?token=geheim&limit=x", headers=headers).status == 400
    listed, invalid = of_agent(api, agent)
    assert invalid["reason"] == "Invalid"
    assert listed["path"] == f"{path}?token=REDACTED&limit=x"
    assert "geheim" not in str([listed, invalid])
    assert "Z2VoZWlt" not in str([listed, invalid])


def test_the_list_is_filtered_by_user_agent_and_time(api: Api, agent: str) -> None:
    def users(query: str) -> list[str]:
        return [each["user"] for each in of_agent(api, agent, query)]

    for token, status in (("alice-token", 403), ("wrong-token", 401), ("alice-token", 403)):
        headers = {"User-Agent": f"before {agent} after", "Authorization": f"Bearer {token}"}
        assert api.get("/api/v1/secrets", headers=headers).status == status
    first = of_agent(api, agent)[-1]
    assert len(users("")) == 3
    assert users("&user=alice") == ["alice", "alice"]
    assert users("&user=ali") == ["alice", "alice"]
    assert users("&user=bob") == []
    second = of_agent(api, agent)[1]["time"]
    assert len(users(f"&since={first['time']}")) == 3, "at the time is since the time"
    assert len(users(f"&since={second}")) == 2
    assert users("&since=2200-01-01T00:00:00Z") == []


INVALID: Final = {
    "a time that is none": "since=yesterday",
    "an unknown parameter": "sinse=2026-01-01T00:00:00Z",
    "a repeated parameter": "user=a&user=b",
}


@pytest.mark.parametrize("query", INVALID.values(), ids=INVALID)
def test_an_invalid_query_is_refused(api: Api, query: str) -> None:
    assert api.get(f"{PATH}?{query}").status == 400


CALLERS: Final = {
    "without the right": ("GET", "alice-token", 403),
    "without credentials": ("GET", "", 403),
    "another method": ("DELETE", "admin-token", 405),
    "with the right": ("GET", "admin-token", 200),
}


@pytest.mark.parametrize(("method", "token", "code"), CALLERS.values(), ids=CALLERS)
def test_the_list_is_authorized_as_other_paths(api: Api, method: str, token: str, code: int) -> None:
    with api.as_caller(token) as caller:
        assert caller.send(method, PATH).status == code


def test_the_list_names_its_process_and_counts(api: Api) -> None:
    found = api.get(PATH).ok()
    assert found["workers"] == 1
    assert found["worker"]
    assert set(found["counts"]) == {"slow", "refused", "failed"}
    assert PATH not in api.get("/").ok()["paths"], "it is not in discovery"
