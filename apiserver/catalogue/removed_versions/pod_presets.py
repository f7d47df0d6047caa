"""PodPresets of settings/v1alpha1 in releases 1.6 to 1.19: fields to add to pods. Rows H01, T31.

No version replaced them. The server validates and stores them; no admission plugin applies them to pods.
Source: pkg/apis/settings (v1alpha1/zz_generated.defaults.go, validation) and pkg/registry/settings/podpreset
(release 1.18).
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.pod_specs.containers import validate_container_preset
from apiserver.catalogue.pod_specs.defaults import DEFAULTS
from apiserver.catalogue.pod_specs.validation_options import options_of
from apiserver.catalogue.pod_specs.volumes import VolumeOwner, validate_volumes
from apiserver.meta.field_errors import Errors, required
from apiserver.meta.releases.gates import gates_of
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.validation.label_selectors import label_selector

_LAST_RELEASE: Final = 19
_OPTIONS: Final = options_of(gates_of(_LAST_RELEASE, ()))
# In the order in which Kubernetes names them.
_PARTS: Final = ("volumes", "env", "envFrom", "volumeMounts")


def validate_pod_preset(document: Document) -> Errors:
    spec = document.get("spec") or {}
    errors = label_selector("spec.selector", spec.get("selector"))
    if all(spec.get(part) is None for part in _PARTS):
        errors.append(required(f"spec.{'.'.join(_PARTS)}", "must specify at least one"))
    volumes, wrong = validate_volumes("spec", spec, VolumeOwner(is_pod=False))
    return errors + wrong + validate_container_preset("spec", spec, volumes, _OPTIONS)


def _keep_spec(new: Document, old: Document) -> None:
    """Keeps the old spec silently, as Kubernetes does."""
    new["spec"] = old.get("spec", {})


BUILTIN_TYPE: Final = BuiltinType(
    "settings.",
    "v1alpha1",
    "podpresets",
    "PodPreset",
    defaults=DEFAULTS,
    strategy=Strategy(
        validate=validate_pod_preset, update=UpdateStrategy(prepare=_keep_spec), has_generation=True
    ),
)
