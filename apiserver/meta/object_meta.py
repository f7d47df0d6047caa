"""The rules of `metadata`, which are the same for objects of every kind.

The documents have passed the schema: fields have their types. Sources:
k8s.io/apimachinery pkg/api/validation/objectmeta.go, k8s.io/apiserver pkg/registry/rest/{create,update}.go.
Requirement rows A15, A16, B01-B15, G01-G03.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from apiserver.golang.quoting import go_quote
from apiserver.meta import names
from apiserver.meta.field_errors import FieldError, forbidden, invalid, required, too_long
from apiserver.meta.names import NameRule
from apiserver.meta.vocabulary import Document

# The maximum of reported errors; each may repeat a long value.
ERRORS_MAX: Final = 20
ANNOTATIONS_BYTES_MAX: Final = 256 * 1024
# The finalizers of the garbage collector, which have no domain.
FINALIZER_ORPHAN: Final = "orphan"
FINALIZER_FOREGROUND: Final = "foregroundDeletion"
_STANDARD_FINALIZERS: Final = frozenset({"kubernetes", FINALIZER_ORPHAN, FINALIZER_FOREGROUND})


# ---- fields that the server sets

_SET_BY_SERVER: Final = frozenset(
    {"creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"}
)


def wipe_server_fields(meta: Document) -> None:
    """Remove the values that a client sent for server-set fields of a new object."""
    for field in _SET_BY_SERVER & meta.keys():
        del meta[field]


def prepare_create(meta: Document, *, uid: str, now: str, generated_suffix: Callable[[], str]) -> None:
    """Set the fields of a new object that the server owns."""
    meta["uid"] = uid
    meta["creationTimestamp"] = now
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = generate_name(meta["generateName"], generated_suffix())


def generate_name(prefix: str, suffix: str) -> str:
    """Append a suffix to a prefix: `my-`, `x7k2p` -> `my-x7k2p`. Long prefixes are truncated."""
    return prefix[: names.GENERATE_NAME_PREFIX_MAX] + suffix


def prepare_update(meta: Document, old: Document) -> None:
    """Keep the old values of server-set fields that clients may omit."""
    meta.pop("selfLink", None)
    if not meta.get("uid"):
        _keep(meta, old, "uid")
    _keep(meta, old, "creationTimestamp")
    _keep(meta, old, "generation")
    # A deletion cannot be undone, nor its grace period be removed.
    if "deletionTimestamp" in old:
        _keep(meta, old, "deletionTimestamp")
        if meta.get("deletionGracePeriodSeconds") is None:
            _keep(meta, old, "deletionGracePeriodSeconds")


def _keep(meta: Document, old: Document, field: str) -> None:
    if field in old:
        meta[field] = old[field]
    else:
        meta.pop(field, None)


def remove_duplicate_owners(meta: Document) -> list[str]:
    """Remove duplicate entries of ownerReferences; returns their UIDs."""
    owners = meta.get("ownerReferences")
    if not owners or len(owners) < 2:
        return []
    seen: dict[tuple[tuple[str, Any], ...], Document] = {}
    duplicates: dict[str, None] = {}
    for owner in owners:
        fields = tuple(sorted(owner.items()))
        if fields in seen:
            duplicates[str(owner.get("uid", ""))] = None
        seen.setdefault(fields, owner)
    meta["ownerReferences"] = list(seen.values())
    return list(duplicates)


# ---- validation


def validate(
    meta: Document, *, is_namespaced: bool, name_rule: NameRule, allows_unqualified_finalizers: bool = False
) -> list[FieldError]:
    """Returns the errors in the metadata of an object that is about to be stored.

    allows_unqualified_finalizers: whether finalizers need no domain, as in custom resources.
    """
    errors = []
    if prefix := meta.get("generateName"):
        problems = name_rule(_example_name(prefix))
        errors += [invalid("metadata.generateName", prefix, problem) for problem in problems]
    if not (name := meta.get("name")):
        errors.append(required("metadata.name", "name or generateName is required"))
    elif problems := name_rule(name):
        errors += [invalid("metadata.name", name, problem) for problem in problems]
    if (namespace := meta.get("namespace")) and is_namespaced:
        if problems := names.dns_label(namespace):
            errors += [invalid("metadata.namespace", namespace, problem) for problem in problems]
    elif is_namespaced:
        errors.append(required("metadata.namespace"))
    elif namespace:
        errors.append(forbidden("metadata.namespace", "not allowed on this type"))
    if meta.get("generation", 0) < 0:
        errors.append(
            invalid("metadata.generation", meta["generation"], "must be greater than or equal to 0")
        )
    if labels := meta.get("labels"):
        errors += validate_labels(labels, "metadata.labels")
    if annotations := meta.get("annotations"):
        errors += validate_annotations(annotations)
    if owners := meta.get("ownerReferences"):
        errors += _validate_owners(owners)
    if finalizer_names := meta.get("finalizers"):
        errors += _validate_finalizers(finalizer_names, allows_unqualified=allows_unqualified_finalizers)
    return errors


def validate_path_segments(meta: Document) -> list[FieldError]:
    """Returns the errors in a new object's name as a path segment, which must be valid for every kind."""
    prefix, name = meta.get("generateName"), meta["name"]
    errors: list[FieldError] = []
    if problems := names.path_segment(name):
        errors = [invalid("metadata.name", name, each) for each in problems]
    if prefix:
        of_prefix = names.path_segment_part(prefix)
        errors = [*(invalid("metadata.generateName", prefix, each) for each in of_prefix), *errors]
    return errors


def validate_update(meta: Document, old: Document) -> list[FieldError]:
    """Returns the errors in an update from `old` to `meta`."""
    errors = _validate_finalizer_additions(meta, old)
    errors += [
        invalid(f"metadata.{field}", meta.get(field), "field is immutable")
        for field in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp")
        if meta.get(field) != old.get(field) or (field in meta) != (field in old)
    ]
    if meta.get("deletionGracePeriodSeconds") != old.get("deletionGracePeriodSeconds"):
        errors.append(
            invalid(
                "metadata.deletionGracePeriodSeconds",
                meta.get("deletionGracePeriodSeconds"),
                "field is immutable",
            )
        )
    if meta.get("generation", 0) < old.get("generation", 0):
        errors.append(invalid("metadata.generation", meta.get("generation", 0), "must not be decremented"))
    return errors


def validate_labels(labels: dict[str, str] | None, field: str) -> list[FieldError]:
    errors = []
    for key, value in (labels or {}).items():
        if problems := names.qualified_name(key):
            errors += [invalid(field, key, problem) for problem in problems]
        if problems := names.label_value(value):
            errors += [invalid(field, value, problem) for problem in problems]
        if len(errors) >= ERRORS_MAX:
            break
    return errors


def validate_finalizer_name(name: str, field: str) -> list[FieldError]:
    """Returns the errors in a finalizer's name: it needs a domain, unless it is a standard one."""
    if is_unqualified_finalizer(name):
        return [invalid(field, name, "name is neither a standard finalizer name nor is it fully qualified")]
    return []


def _example_name(prefix: str) -> str:
    """Returns a name that the prefix may become. As in Kubernetes, a final dash also hides the character
    before it.
    """
    return prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def validate_annotations(
    annotations: dict[str, str] | None, field: str = "metadata.annotations"
) -> list[FieldError]:
    errors = []
    size_bytes = 0
    for key, value in (annotations or {}).items():
        # The rule is that of label keys, except that the domain may have upper case.
        if problems := names.qualified_name(key.lower()):
            errors += [invalid(field, key, problem) for problem in problems]
        if len(errors) >= ERRORS_MAX:
            return errors
        size_bytes += len(key.encode()) + len(value.encode())
    if size_bytes > ANNOTATIONS_BYTES_MAX:
        errors.append(too_long(field, ANNOTATIONS_BYTES_MAX))
    return errors


_OWNER_FIELDS: Final = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")


def _validate_owners(owners: list[Document]) -> list[FieldError]:
    field = "metadata.ownerReferences"
    errors = []
    controller: Document | None = None
    for owner in owners:
        group, _, version = owner.get("apiVersion", "").rpartition("/")
        if not version or "/" in group:
            errors.append(
                invalid(f"{field}.apiVersion", owner.get("apiVersion", ""), "version must not be empty")
            )
        errors += [
            invalid(f"{field}.{part}", "", "must not be empty")
            for part in ("kind", "name", "uid")
            if not owner.get(part)
        ]
        if (group, version, owner.get("kind")) == ("", "v1", "Event"):
            errors.append(
                invalid(field, _ordered_fields(owner), "/v1, Kind=Event is disallowed from being an owner")
            )
        if owner.get("controller") is True:
            if controller is not None:
                both = f"{_kind_and_name(controller)} and {_kind_and_name(owner)}"
                errors.append(
                    invalid(
                        field,
                        [_ordered_fields(each) for each in owners],
                        "Only one reference can have Controller set to true. "
                        f'Found "true" in references for {both}',
                    )
                )
            controller = owner
        if len(errors) >= ERRORS_MAX:
            break
    return errors


def _ordered_fields(owner: Document) -> dict[str, Any]:
    return {part: owner[part] for part in _OWNER_FIELDS if part in owner}


def _kind_and_name(owner: Document) -> str:
    return f"{owner.get('kind', '')}/{owner.get('name', '')}"


def is_unqualified_finalizer(name: str) -> bool:
    """Returns whether a finalizer's name lacks a domain without being a standard one."""
    return "/" not in name and name not in _STANDARD_FINALIZERS


def _validate_finalizers(finalizers: list[str], *, allows_unqualified: bool) -> list[FieldError]:
    errors = []
    for index, name in enumerate(finalizers):
        errors += [invalid("metadata.finalizers", name, problem) for problem in names.qualified_name(name)]
        if not allows_unqualified:
            errors += validate_finalizer_name(name, f"metadata.finalizers[{index}]")
        if len(errors) >= ERRORS_MAX:
            break
    if {FINALIZER_ORPHAN, FINALIZER_FOREGROUND} <= set(finalizers):
        both = f"finalizer {FINALIZER_ORPHAN} and {FINALIZER_FOREGROUND} cannot be both set"
        errors.append(invalid("metadata.finalizers", finalizers, both))
    return errors


def _validate_finalizer_additions(meta: Document, old: Document) -> list[FieldError]:
    """Returns the errors in added finalizers: none may be added to an object that is being deleted (row
    B07).
    """
    if "deletionTimestamp" not in old:
        return []
    added = sorted(set(meta.get("finalizers") or ()) - set(old.get("finalizers") or ()))
    if not added:
        return []
    listed = ", ".join(map(go_quote, added))
    return [
        forbidden(
            "metadata.finalizers",
            "no new finalizers can be added if the object is being deleted, "
            f"found new finalizers []string{{{listed}}}",
        )
    ]


def finalizers(document: Document) -> list[str]:
    """Returns the finalizers of an object."""
    listed: list[str] = document["metadata"].get("finalizers") or []
    return listed
