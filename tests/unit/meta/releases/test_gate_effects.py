"""The table of what feature gates do is true, and so is docs/reference/feature-gates.md. Rows H09, S08."""

from __future__ import annotations

import ast
import pkgutil
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from apiserver.catalogue.gated_fields import gates_of_fields
from apiserver.meta.releases.emulation import DEFAULT_MINOR, NEWEST_MINOR
from apiserver.meta.releases.gate_effects import BUILTIN, GATED, NONE, effective_gates, gate_effects
from apiserver.meta.releases.gates import FeatureGates, known_gates
from tests.references import FEATURE_GATES, feature_gates_reference

ROOT: Final = Path(__file__).parents[4]
# Gates with the names of types, admission plugins and access modes, which are named for those, too.
NAMES_OF_OTHERS: Final = frozenset(
    {
        *("CSIStorageCapacity", "DefaultIngressClass", "EndpointSlice", "MutatingAdmissionPolicy"),
        *("PodDisruptionBudget", "PodSecurity", "ReadWriteOncePod", "RuntimeClass"),
        *("StorageObjectInUseProtection", "TaintNodesByCondition", "TokenRequest"),
        "ValidatingAdmissionPolicy",
    }
)
# Modules that name a kind or a scope of quotas, not the gate of this name.
NAMED_FOR_OTHERS: Final[dict[str, frozenset[str]]] = {
    "ClusterTrustBundle": frozenset({"catalogue.pod_specs.overlapping_paths"}),
    "PodCertificateRequest": frozenset({"controllers.node_graph"}),
    "VolumeAttributesClass": frozenset(
        {
            *("admission.configuration.resource_quota", "catalogue.core.resource_quotas"),
            *("catalogue.core.resource_quotas.usage", "catalogue.storage.volume_attributes_classes"),
        }
    ),
}
_WORD: Final = re.compile(r"\b[A-Z]\w+")


def path_of(module: str) -> Path:
    folder = ROOT if module.startswith("storage.") else ROOT / "apiserver"
    path = folder.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def names_in(path: Path) -> frozenset[str]:
    """The gates that stand in the code of a module as strings, as they do where it asks for them."""
    text = path.read_text()
    named = known_gates().keys() & set(_WORD.findall(text))
    if not named:
        return frozenset()
    constants = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    return frozenset(named & {each for each in constants if isinstance(each, str)})


def test_what_is_on_by_default_is_in_the_table_or_has_fields() -> None:
    gates = FeatureGates(DEFAULT_MINOR)
    on = {name for name, _, is_on in gates.states() if is_on}
    assert on - gate_effects().keys() - gates_of_fields(DEFAULT_MINOR) == set()


def test_each_gate_of_the_table_is_one_of_kubernetes_and_stands_there_once_in_order() -> None:
    text = pkgutil.get_data("apiserver.meta.releases", "gate_effects.txt")
    assert text is not None
    sections: list[list[str]] = []
    for line in text.decode().splitlines():
        if line.startswith(">"):
            sections.append([])
        elif not line.startswith("#"):
            sections[-1].append(line.split()[0])
    names = [name for section in sections for name in section]
    assert len(names) == len(set(names))
    assert set(names) <= known_gates().keys()
    assert [section for section in sections if section != sorted(section)] == []


@pytest.mark.parametrize("kind", [GATED, BUILTIN])
def test_the_modules_of_an_effect_are_there(kind: str) -> None:
    modules = {each for effect in gate_effects().values() if effect.kind == kind for each in effect.modules}
    assert [module for module in sorted(modules) if not path_of(module).is_file()] == []


def test_every_effect_tells_where_it_is_or_why_there_is_none() -> None:
    for name, effect in gate_effects().items():
        assert effect.kind in (GATED, BUILTIN, NONE), name
        assert bool(effect.modules) is (effect.kind != NONE), name
        assert bool(effect.why) is (effect.kind == NONE), name


def module_of(path: Path) -> str:
    """The inverse of `path_of`."""
    steps = path.relative_to(ROOT).with_suffix("").parts
    steps = steps[1:] if steps[0] == "apiserver" else steps
    return ".".join(steps[:-1] if steps[-1] == "__init__" else steps)


@cache
def modules_by_gate() -> dict[str, set[str]]:
    """The modules in whose code a gate stands."""
    found: dict[str, set[str]] = {}
    for path in (*(ROOT / "apiserver").rglob("*.py"), *(ROOT / "storage").rglob("*.py")):
        for name in names_in(path):
            found.setdefault(name, set()).add(module_of(path))
    return found


GATED_NAMES: Final = sorted(name for name, effect in gate_effects().items() if effect.kind == GATED)


@pytest.mark.parametrize("name", GATED_NAMES)
def test_the_modules_of_a_gate_are_all_that_ask_for_it(name: str) -> None:
    others = NAMED_FOR_OTHERS.get(name, frozenset())
    assert others <= modules_by_gate()[name]
    assert set(gate_effects()[name].modules) == modules_by_gate()[name] - others


def test_no_other_gate_is_asked_for() -> None:
    asked = modules_by_gate().keys()
    assert asked - set(GATED_NAMES) - gates_of_fields(NEWEST_MINOR) - NAMES_OF_OTHERS == set()


def test_an_effect_may_begin_later_than_its_gate() -> None:
    gate = "TopologyAwareWorkloadScheduling"
    assert known_gates()[gate].stage(36) is not None
    assert gate in effective_gates(37) - effective_gates(36)


def test_the_document_is_up_to_date() -> None:
    assert FEATURE_GATES.read_text() == feature_gates_reference(), "make docs"
