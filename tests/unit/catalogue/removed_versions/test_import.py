"""A server that serves no removed version imports none, until it reads an object that is stored in one."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

PROGRAM: Final = """
import sys
from apiserver.meta.brand import Brand
from apiserver.catalogue.builtins import Catalogue
from apiserver.registry.stored_object import head_of
from apiserver.schema.builtin import BuiltinSchemas

catalogue = Catalogue(Brand(), BuiltinSchemas((1, 36)))
catalogue.resources()
module = "apiserver.catalogue.removed_versions"
for version, kind in (("v1", "Pod"), ("example.com/v1", "Widget"), ("coordination.k8s.io/v1beta1", "Lease")):
    catalogue.other_version(head_of(version, kind))
    print(kind, module in sys.modules)
"""


def test_they_are_imported_when_one_is_read() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["Pod False", "Widget False", "Lease True"]
