"""Lists in chunks: all pages are of the first page's resourceVersion.

Rows C04-C06, J06, K07-K12, K25, K34, K35, K45.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.support.api import Answer, Api
from tests.support.eventually import eventually
from tests.support.fixtures import api_with

COUNT: Final = 10
NAMES: Final = [f"c{n}" for n in range(COUNT)]


def fill(api: Api, namespace: str, resource: str = "configmaps") -> str:
    path = f"/api/v1/namespaces/{namespace}/{resource}"
    for n, name in enumerate(NAMES):
        api.post(path, {"metadata": {"name": name, "labels": {"even": str(n % 2 == 0)}}}).ok()
    return path


@pytest.fixture
def configmaps(api: Api, namespace: str) -> str:
    """The path of a collection of ten ConfigMaps."""
    return fill(api, namespace)


def names_of(page: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in page["items"]]


def pages(api: Api, path: str, limit: int, query: str = "") -> Iterator[dict[str, Any]]:
    token = ""
    for _ in range(COUNT + 1):  # an endless list fails rather than hangs
        page = api.get(f"{path}?limit={limit}&continue={token}{query}").ok()
        yield page
        token = page["metadata"].get("continue", "")
        if not token:
            return
    raise AssertionError("there are more pages than objects")


def forged(**fields: Any) -> str:
    """A continue token with content of the test's choice, encoded as the server does."""
    document = {"v": "meta.k8s.io/v1", "rv": -1, "start": "c0", **fields}
    return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()


def content(token: str) -> dict[str, Any]:
    return dict(json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))))


@pytest.mark.parametrize("limit", [1, 3, 5, 9, 10, 11])
@pytest.mark.parametrize("query", ["", "&labelSelector=even%3DTrue", "&fieldSelector=metadata.name!%3Dc0"])
def test_the_pages_together_are_the_list(api: Api, configmaps: str, limit: int, query: str) -> None:
    """Rows C04-C06, K45: at one version, all but the last full, no count where only some are selected."""
    whole = api.get(f"{configmaps}?{query}").ok()
    found = list(pages(api, configmaps, limit, query))
    assert list(itertools.chain.from_iterable(page["items"] for page in found)) == whole["items"]
    assert {page["metadata"]["resourceVersion"] for page in found} == {whole["metadata"]["resourceVersion"]}
    assert [len(page["items"]) for page in found[:-1]] == [limit] * (len(found) - 1)
    left = len(whole["items"])
    for page in found:
        left -= len(page["items"])
        expected = left if left and not query else None
        assert page["metadata"].get("remainingItemCount") == expected
        assert ("continue" in page["metadata"]) is bool(left)


@pytest.mark.parametrize("limit", ["0", "-1", "1000", str(2**63 - 1)])
def test_invalid_limits(api: Api, configmaps: str, limit: str) -> None:
    """Row J06."""
    page = api.get(f"{configmaps}?limit={limit}").ok()
    assert names_of(page) == NAMES
    assert set(page["metadata"]) == {"resourceVersion"}


def test_all_pages_are_of_the_version_of_the_first(api: Api, configmaps: str) -> None:
    """Row K34: what was written in between is not seen, what was deleted is."""
    before = api.get(configmaps).ok()
    seen = []
    for number, page in enumerate(pages(api, configmaps, 2)):
        seen += page["items"]
        assert page["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        api.delete(f"{configmaps}/c{9 - number}").ok()
        api.patch(f"{configmaps}/c{4 - number}", {"data": {"changed": "yes"}}).ok()
        api.post(configmaps, {"metadata": {"name": f"c5-new-{number}"}}).ok()
    assert seen == before["items"]


def test_the_size_of_pages_may_change(api: Api, configmaps: str) -> None:
    """Row K10: with no limit the rest comes at once."""
    first = api.get(f"{configmaps}?limit=2").ok()
    second = api.get(f"{configmaps}?limit=5&continue={first['metadata']['continue']}").ok()
    assert second["metadata"]["remainingItemCount"] == 3
    rest = api.get(f"{configmaps}?continue={second['metadata']['continue']}").ok()
    assert names_of(first) + names_of(second) + names_of(rest) == NAMES
    again = api.get(f"{configmaps}?limit=5&continue={first['metadata']['continue']}").ok()
    assert again == second, "a token may be used again"


def test_a_limit_makes_a_version_exact(api: Api, configmaps: str) -> None:
    """Rows K09, K18: the first page and those after it show the version asked for."""
    then = api.get(configmaps).ok()["metadata"]["resourceVersion"]
    api.delete(f"{configmaps}/c0").ok()
    for match in ("", "&resourceVersionMatch=Exact"):
        first = api.get(f"{configmaps}?limit=4&resourceVersion={then}{match}").ok()
        assert (names_of(first), first["metadata"]["resourceVersion"]) == (NAMES[:4], then)
        rest = api.get(f"{configmaps}?continue={first['metadata']['continue']}").ok()
        assert names_of(rest) == NAMES[4:]
    newer = api.get(f"{configmaps}?limit=4&resourceVersion={then}&resourceVersionMatch=NotOlderThan").ok()
    assert names_of(newer) == NAMES[1:5]
    assert int(newer["metadata"]["resourceVersion"]) > int(then)


def test_resource_versions_beside_a_token(api: Api, configmaps: str) -> None:
    """Rows K08, K11, K12, K25."""
    token = api.get(f"{configmaps}?limit=9").ok()["metadata"]["continue"]
    assert names_of(api.get(f"{configmaps}?limit=9&resourceVersion=0&continue={token}").ok()) == NAMES[9:]
    answer = api.get(f"{configmaps}?limit=9&resourceVersion=1&continue={token}")
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert "specifying resource version is not allowed when using continue" in answer.message
    answer = api.get(f"{configmaps}?resourceVersionMatch=NotOlderThan&resourceVersion=1&continue={token}")
    assert answer.status == 422
    from_cache = list(pages(api, configmaps, 4, "&resourceVersion=0"))
    assert list(itertools.chain.from_iterable(map(names_of, from_cache))) == NAMES
    assert [len(names_of(page)) for page in from_cache] == [4, 4, 2]


# ---- tokens from elsewhere


def test_a_token_of_another_list_leads_nowhere_else(api: Api, namespace: str, configmaps: str) -> None:
    """A token holds a place within the list it is used on, never a way out of it."""
    other = f"{namespace}-other"
    api.post("/api/v1/namespaces", {"metadata": {"name": other}}).ok()
    secrets = fill(api, namespace, "secrets")
    elsewhere = fill(api, other)
    token = api.get(f"{elsewhere}?limit=4").ok()["metadata"]["continue"]
    for path in (configmaps, secrets):
        page = api.get(f"{path}?continue={token}").ok()
        assert names_of(page) == NAMES[4:]
        assert {item["metadata"]["namespace"] for item in page["items"]} == {namespace}
    everywhere = api.get("/api/v1/configmaps?limit=1").ok()["metadata"]["continue"]
    for item in api.get(f"{configmaps}?continue={everywhere}").ok()["items"]:
        assert item["metadata"]["namespace"] == namespace


INSIDE: Final = {
    "before all": ("\0", NAMES),
    "within": ("c7\0", NAMES[8:]),
    "after the last": ("c9\0", []),
    "after all letters": ("zz", []),
    "after all ASCII": ("~", []),
    "after all": ("\U0010ffff", []),
}
OUTSIDE: Final = {
    "the namespace above": "../",
    "another resource": "../../secrets/",
    "the root": "/",
    "no segment": "//",
    "a key of the store": "/registry/secrets/",
}


@pytest.mark.parametrize(("start", "names"), INSIDE.values(), ids=INSIDE)
@pytest.mark.parametrize("limit", [None, 3], ids=["all", "a page"])
def test_a_forged_place_in_the_list(
    api: Api, configmaps: str, start: str, names: list[str], limit: int | None
) -> None:
    """Whatever is written into a token, the answer holds objects of this list."""
    page = api.get(f"{configmaps}?limit={limit or 0}&continue={forged(start=start)}").ok()
    assert names_of(page) == names[:limit]


@pytest.mark.parametrize("start", OUTSIDE.values(), ids=OUTSIDE)
@pytest.mark.parametrize("limit", ["0", "3"], ids=["all", "a page"])
def test_a_forged_place_outside_of_it(api: Api, configmaps: str, start: str, limit: str) -> None:
    refused = api.get(f"{configmaps}?limit={limit}&continue={forged(start=start)}")
    assert (refused.status, refused.reason) == (400, "BadRequest")
    assert refused.message.startswith("invalid continue token: continue key is not valid: ")


REFUSED: Final = {
    "cut": lambda token: token[:-3],
    "changed in the middle": lambda token: token[:8] + "!" + token[9:],
    "another form": lambda token: forged(v="meta.example.com/v1"),
    "no form": lambda token: forged(v=None),
    "version zero": lambda token: forged(rv=0),
    "version below int64": lambda token: forged(rv=-(2**63) - 1),
    "version above int64": lambda token: forged(rv=2**63),
    "version of text": lambda token: forged(rv="1"),
    "version that is true": lambda token: forged(rv=True),
    "empty place": lambda token: forged(start=""),
    "place of a number": lambda token: forged(start=7),
    "a list": lambda token: base64.urlsafe_b64encode(b"[]").decode(),
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_invalid_tokens(api: Api, configmaps: str, change: Any) -> None:
    """Row J11."""
    token = api.get(f"{configmaps}?limit=4").ok()["metadata"]["continue"]
    answer = api.get(f"{configmaps}?limit=4&continue={change(token)}")
    assert (answer.status, answer.reason) == (400, "BadRequest"), answer.body
    assert "continue" in answer.message


def test_a_token_of_the_future(api: Api, configmaps: str) -> None:
    """Row K37: an exact version that is not there yet is told at once."""
    answer = api.get(f"{configmaps}?continue={forged(rv=2**40)}")
    assert (answer.status, answer.reason) == (504, "Timeout")
    assert "Too large resource version" in answer.message


# ---- versions that have been forgotten


# Two changes of each resource are kept in memory, and others for a tenth of a second.
forgetful = api_with("--default-watch-cache-size=2", "--etcd-compaction-interval=100ms")


async def test_an_expired_token(forgetful: Api) -> None:
    """Rows K31, K35, K46: 410, and a token to go on at whatever is most recent."""
    api = forgetful
    path = fill(api, "default")
    first = api.get(f"{path}?limit=4").ok()
    token, then = first["metadata"]["continue"], first["metadata"]["resourceVersion"]
    for name in ("c4", "c8", "c9"):
        api.delete(f"{path}/{name}").ok()

    async def once_gone(query: str) -> Answer:
        def ask() -> Answer | None:
            answer = api.get(f"{path}?{query}")
            return answer if answer.status != 200 else None

        answer = await eventually(ask)
        assert answer is not None
        return answer

    gone = await once_gone(f"limit=2&continue={token}")
    assert (gone.status, gone.reason) == (410, "Expired")
    assert "continue parameter is too old" in gone.message
    fresh = gone.json["metadata"]["continue"]
    assert content(fresh)["start"] == content(token)["start"]
    rest = api.get(f"{path}?limit=2&continue={fresh}").ok()
    assert names_of(rest) == ["c5", "c6"]
    assert int(rest["metadata"]["resourceVersion"]) > int(then)
    assert names_of(api.get(f"{path}?continue={rest['metadata']['continue']}").ok()) == ["c7"]

    exact = await once_gone(f"resourceVersion={then}&resourceVersionMatch=Exact")
    assert (exact.status, exact.reason) == (410, "Expired")
    assert "continue" not in exact.json["metadata"]
