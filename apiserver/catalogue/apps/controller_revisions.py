"""ControllerRevisions: former states of StatefulSets and DaemonSets."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.meta.field_errors import Errors, required
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy
from apiserver.schema.validation.checks import immutable, non_negative


def validate_controller_revision(document: Document, old: Document | None) -> Errors:
    errors, data = non_negative("revision", document.get("revision")), document.get("data")
    if old is not None:
        return errors + immutable("data", data, old.get("data"))
    return errors if data is not None else [*errors, required("data", "data is mandatory")]


# ---- columns


def _controller(document: Document, now: float) -> str:
    owners = document["metadata"].get("ownerReferences") or ()
    owner = next((owner for owner in owners if owner.get("controller")), None)
    if owner is None:
        return "<none>"
    group = owner.get("apiVersion", "").rpartition("/")[0]
    kind = f"{owner.get('kind', '')}.{group}" if group else owner.get("kind", "")
    return f"{kind.lower()}/{owner.get('name', '')}"


BUILTIN_TYPE: Final = BuiltinType(
    "apps",
    "v1",
    "controllerrevisions",
    "ControllerRevision",
    strategy=Strategy(validate_ratcheting=validate_controller_revision),
    columns=columns(
        Column("Controller", _controller, "The object that the revision belongs to."),
        Column("Revision", field_cell("revision", default=0), "The number of the revision."),
        AGE,
    ),
)
