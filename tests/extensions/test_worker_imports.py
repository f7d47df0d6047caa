"""A worker imports little, so that it is small and starts soon."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import orjson

# The names of the package are imported when they are used.
_LIST_MODULES: Final = """\
import sys, orjson, {module}
from apiserver.extensions import *
print(orjson.dumps(sorted(sys.modules)).decode())
"""
# Libraries that are large, or slow to import.
LARGE: Final = {"aiohttp", "cryptography", "grpc", "google", "yaml", "cbor2", "prometheus_client"}


def modules_after(module: str) -> set[str]:
    """Returns the modules that an interpreter has imported with one of them."""
    command = [sys.executable, "-c", _LIST_MODULES.format(module=module)]
    found = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    return set(orjson.loads(found))


# Words that have no further imports.
WORDS: Final = {"apiserver.meta", "apiserver.meta.owners", "apiserver.meta.vocabulary"}


def test_a_worker_imports_nothing_of_the_server() -> None:
    modules = modules_after("apiserver.extensions.worker")
    own = {name for name in modules if name.startswith("apiserver.")}
    assert {name for name in own if not name.startswith("apiserver.extensions")} == WORDS
    assert {name for name in own if name.startswith("apiserver.extensions.host")} == set()
    assert modules & LARGE == set()
