"""Coroutines have stored objects decoded by `Offload.document` or `Offload.read`, large ones in a thread.

A coroutine that calls `document()` itself does that on the event loop, however large the object is. Functions
inside it, which a thread runs, may.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parent.parent / "apiserver"
# Where it is right all the same, and why.
ON_LOOP: Final = {
    "controllers/cluster_role_aggregation.py": "what was just written, by this server itself",
    "controllers/cluster_trust_bundles.py": "an object of this server's own",
    "controllers/flow_control_objects.py": "cluster administrators write these, and few",
    "controllers/leader_election.py": "a Lease of this server's own",
    "controllers/extension_definitions.py": "definitions of extensions, before the server is ready",
    "controllers/namespace_default_objects.py": "what is built in",
    "controllers/rbac_bootstrap.py": "what is built in, and stored of that, before the server is ready",
    "controllers/service_cidrs.py": "cluster administrators write these, and few",
    "controllers/storage_version_migrator.py": "cluster administrators write these, and few",
    "custom_resources/serving/conversion_webhooks.py": "a review, which is no stored object",
    "registry/delete_path.py": "an object that has changed while its deletion was completed",
    "load/offload.py": "what is small, for all others",
}


def calls_of_coroutines(tree: ast.AST, is_coroutine: bool = False) -> Iterator[ast.Call]:
    """Yields the calls that coroutines make themselves."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.AsyncFunctionDef():
                yield from calls_of_coroutines(node, is_coroutine=True)
            case ast.FunctionDef() | ast.Lambda():
                yield from calls_of_coroutines(node)
            case _:
                if is_coroutine and isinstance(node, ast.Call):
                    yield node
                yield from calls_of_coroutines(node, is_coroutine)


def decodes(call: ast.Call) -> bool:
    """Whether it calls the method `document` of a stored object, which takes no arguments."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "document" and not call.args


def test_coroutines_decode_no_objects_themselves() -> None:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE).as_posix()
        # The objects of tests are small.
        if not place.startswith("testkit/"):
            tree = ast.parse(path.read_text())
            if any(map(decodes, calls_of_coroutines(tree))):
                found.add(place)
    assert found == ON_LOOP.keys()
