"""The document of aggregated discovery is kube-apiserver's of the same release. Rows H01-H03, S03.

`discovery-1.36.json` holds what kube-apiserver 1.36.2 serves by default, in the order of its document: of
each resource what `kubectl api-resources` and clients look at. `discovery-1.34.json` holds what it serves
when it emulates 1.34.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import orjson

from tests.support.api import Api
from tests.support.definitions import DEFINITIONS
from tests.support.server_process import ServerProcess

AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def recorded(release: str) -> Any:
    """Returns the groups that kube-apiserver serves."""
    return orjson.loads((Path(__file__).parent / f"discovery-{release}.json").read_bytes())["groups"]


def shortened(document: Any) -> list[dict[str, Any]]:
    """Returns a document of aggregated discovery in the form of what was recorded."""
    return [
        {"group": group["metadata"].get("name", ""), "versions": list(map(version, group["versions"]))}
        for group in document["items"]
    ]


def version(found: dict[str, Any]) -> dict[str, Any]:
    return {"version": found["version"], "resources": list(map(resource, found["resources"]))}


def resource(found: dict[str, Any]) -> dict[str, Any]:
    own = found["responseKind"]
    kept = {
        "resource": found["resource"],
        "kind": own["kind"],
        "scope": found["scope"],
        "singular": found["singularResource"],
        "verbs": sorted(found["verbs"]),
        "responseKind": {"kind": own["kind"]},
        "shortNames": found.get("shortNames"),
        "categories": found.get("categories"),
        "subresources": [
            {
                "name": each["subresource"],
                "verbs": sorted(each["verbs"]),
                "responseKind": kind(each["responseKind"], own),
            }
            for each in found.get("subresources", ())
        ],
    }
    return {name: value for name, value in kept.items() if value}


def kind(found: dict[str, str], own: dict[str, str]) -> dict[str, str]:
    """Without group and version, if they are the resource's own."""
    is_alike = all(found[name] == own[name] for name in ("group", "version"))
    return (
        {"kind": found["kind"]} if is_alike else {name: found[name] for name in ("group", "version", "kind")}
    )


def served(api: Api) -> list[dict[str, Any]]:
    """Returns the built-in groups. Definitions of other tests may be on the same server."""
    custom = {each["spec"]["group"] for each in api.get(DEFINITIONS).ok()["items"]}
    groups = [
        *shortened(api.get("/api", headers={"Accept": AGGREGATED}).ok()),
        *shortened(api.get("/apis", headers={"Accept": AGGREGATED}).ok()),
    ]
    return [each for each in groups if each["group"] not in custom]


def test_what_is_served_by_default(api: Api) -> None:
    assert served(api) == recorded("1.36")


def test_what_is_served_by_a_server_that_emulates_a_release(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--emulated-version=1.34") as server, Api(server) as api:
        assert served(api) == recorded("1.34")
