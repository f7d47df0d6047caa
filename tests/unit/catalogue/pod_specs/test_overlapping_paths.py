"""Files of a volume in each other's way. Source: pkg/api/pod, warningsForOverlappingVirtualPaths."""

from __future__ import annotations

import time
from typing import Final

import pytest

from apiserver.catalogue.pod_specs.overlapping_paths import warn_overlapping_paths
from tests.unit.catalogue.valid_pods import Document


def files(*paths: str) -> list[Document]:
    return [{"key": "k", "path": path} for path in paths]


def config(*paths: str) -> Document:
    return {"configMap": {"name": "c", "items": files(*paths)}}


def projected(*sources: Document) -> Document:
    return {"projected": {"sources": list(sources)}}


OF_CONFIG: Final = 'volume "v" (ConfigMap "c"): overlapping paths:'
PROJECTED: Final = 'volume "v" (Projected)'
BUNDLE: Final = {"clusterTrustBundle": {"signerName": "a.b/c", "path": "p"}}
CERTIFICATE: Final = {
    "podCertificate": {"certificateChainPath": "x/chain", "keyPath": "p", "signerName": "a.b/c"}
}

# A volume, and the warnings about it.
VOLUMES: Final[dict[str, tuple[Document, list[str]]]] = {
    "no files": ({"emptyDir": {}}, []),
    "a config map as it is": ({"configMap": {"name": "c"}}, []),
    "other paths": (config("a", "b/c", "b/d", "ab", "b-c"), []),
    "a path twice": (config("a", "b", "a"), [f'{OF_CONFIG} "a" with "a"']),
    "a path three times": (config("a", "a", "a"), [f'{OF_CONFIG} "a" with "a"'] * 3),
    "a file in a file": (config("a/b", "a"), [f'{OF_CONFIG} "a" with "a/b"']),
    "a file in two": (
        config("a", "a/b", "a/b/c"),
        [f'{OF_CONFIG} "a/b" with "a"', f'{OF_CONFIG} "a/b/c" with "a"', f'{OF_CONFIG} "a/b/c" with "a/b"'],
    ),
    "a slash at the end": (config("a/", "a"), [f'{OF_CONFIG} "a" with "a"']),
    "no path": (config("", "", "/"), []),
    "a secret": (
        {"secret": {"secretName": "s", "items": files("a", "a")}},
        ['volume "v" (Secret "s"): overlapping paths: "a" with "a"'],
    ),
    "the pod itself": (
        {"downwardAPI": {"items": files("a", "a")}},
        ['volume "v" (DownwardAPI): overlapping paths: "a" with "a"'],
    ),
    "the token of an account": (
        projected(
            {"serviceAccountToken": {"path": "token"}},
            config("ca.crt"),
            {"downwardAPI": {"items": files("namespace")}},
        ),
        [],
    ),
    "no source": (projected({}, config("a")), [f"{PROJECTED} has no sources provided"]),
    "sources in each other's way": (
        projected(
            config("p"),
            {"secret": {"name": "s", "items": files("p/q")}},
            {"serviceAccountToken": {"path": "p"}},
        ),
        [
            f'{PROJECTED}: overlapping paths: "p/q" (Secret "s") with "p" (ConfigMap "c")',
            f'{PROJECTED}: overlapping paths: "p" (ServiceAccountToken) with "p" (ConfigMap "c")',
            f'{PROJECTED}: overlapping paths: "p" (ServiceAccountToken) with "p/q" (Secret "s")',
        ],
    ),
    "certificates": (
        projected(BUNDLE, CERTIFICATE),
        [f'{PROJECTED}: overlapping paths: "p" (PodCertificate key) with "p" (ClusterTrustBundle "a.b/c")'],
    ),
}


@pytest.mark.parametrize(("volume", "expected"), VOLUMES.values(), ids=VOLUMES)
def test_volumes(volume: Document, expected: list[str]) -> None:
    assert [*warn_overlapping_paths([{"name": "v", **volume}])] == expected


def test_many_files_are_compared_fast() -> None:
    """Each two of them overlap; so many pairs are told as a client reads."""
    began = time.process_time()
    for paths in (["a"] * 20_000, ["a/" * n + "a" for n in range(1_000)], [f"a/{n}" for n in range(20_000)]):
        assert len([*warn_overlapping_paths([{"name": "v", **config(*paths)}])]) <= 32
    assert time.process_time() - began < 2
