"""Parses the bodies of patches, and applies them to documents (rows E07-E09, L03-L07)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import orjson

from apiserver.endpoints import bodies
from apiserver.endpoints.handlers.decoding import (
    DecodedDocument,
    check_schema,
    require_custom_kind,
    require_storable,
)
from apiserver.golang.formatting import go_text, json_type
from apiserver.load.size_class import SizeClass
from apiserver.meta import field_errors
from apiserver.meta.errors import (
    BadRequest,
    Invalid,
    RequestEntityTooLarge,
    UnmergeablePatch,
    UnprocessablePatch,
)
from apiserver.meta.vocabulary import Document, GroupKind
from apiserver.registry.patch import field_validation as problems_of
from apiserver.registry.patch import merge_patch, strategic_merge
from apiserver.registry.served_resource import ServedResource
from apiserver.schema.compile import TypeMismatch
from apiserver.schema.from_unstructured import mismatch_text
from apiserver.wire.json_text import InvalidJson
from apiserver.wire.media_types import JSON_PATCH, STRATEGIC_MERGE_PATCH


def _as_json(patched: Any) -> str:
    """Raises TypeError for a document that is nested too deeply."""
    return orjson.dumps(patched).decode()


class Patch(NamedTuple):
    """A parsed patch.

    apply: returns the patched document; its argument may be changed. Raises BadRequest, UnprocessablePatch,
        UnmergeablePatch.
    problems: the findings of field validation in the text of the patch. problems_in_object: those in the
        values of a JSON patch, in the patched object.
    size: how much work the patched document may be, if that does not follow from the sizes of patch and
        document.
    merges_maps: see `SchemaCheck.is_merged`.
    copies: whether it copies values from one field to another.
    quoted: how an error quotes a new document that the schema does not allow. mismatch: the error's text;
        empty for the text of a JSON decoder.
    """

    apply: Callable[[Document], Any]
    problems: Sequence[str] = ()
    problems_in_object: Sequence[str] = ()
    size: SizeClass = SizeClass.SMALL
    merges_maps: bool = False
    copies: bool = False
    quoted: Callable[[Any], str] = _as_json
    mismatch: Callable[[Document], str] = lambda _: ""


def parse_patch(body: bytes, content_type: str, resource: ServedResource, field_validation: str) -> Patch:
    """Returns the patch in a body. resource: that of the object to patch.

    Raises BadRequest, RequestEntityTooLarge.
    """
    # kube-apiserver has this prefix for all formats but one.
    prefix = "" if content_type == STRATEGIC_MERGE_PATCH else "error decoding patch: "
    try:
        patch = bodies.load_json(body)
    except InvalidJson as error:
        raise BadRequest(f"{prefix}{error}") from None
    is_checked = field_validation != "Ignore"
    if content_type == JSON_PATCH:
        return _json_patch(body, patch, is_checked=is_checked)
    is_empty = content_type == STRATEGIC_MERGE_PATCH and patch is None
    if not (isinstance(patch, dict) or is_empty):
        raise BadRequest(
            f"{prefix}json: cannot unmarshal {json_type(patch)} into Go value of type "
            "map[string]interface {}"
        )
    problems = problems_of.merge_patch_problems(body, patch) if is_checked else ()
    if content_type == STRATEGIC_MERGE_PATCH:
        return _strategic_merge_patch(body, resource, problems)
    # Merged values become part of the document; another attempt needs its own copy of the patch.
    return Patch(lambda document: merge_patch.apply(document, orjson.loads(body)), problems)


def _json_patch(body: bytes, patch: Any, *, is_checked: bool) -> Patch:
    from apiserver.registry.patch import json_patch

    try:
        json_patch.check(patch)
    except json_patch.TooManyOperations as error:
        raise RequestEntityTooLarge.because(str(error)) from None
    except json_patch.MalformedJsonPatch as error:
        raise BadRequest(f"error decoding patch: {error}") from None

    def apply(document: Document) -> Any:
        try:
            return json_patch.apply(document, orjson.loads(body))
        except json_patch.CannotApply:
            raise UnprocessablePatch from None

    size = SizeClass.HUGE if json_patch.may_multiply(patch) else SizeClass.SMALL
    copies = json_patch.copies(patch)
    if not is_checked:
        return Patch(apply, size=size, copies=copies)
    return Patch(apply, *problems_of.json_patch_problems(body, patch), size=size, copies=copies)


def _strategic_merge_patch(body: bytes, resource: ServedResource, problems: Sequence[str]) -> Patch:
    def apply(document: Document) -> Document:
        try:
            patched = strategic_merge.apply(document, orjson.loads(body) or {}, resource.schema())
        except strategic_merge.MalformedStrategicPatch as error:
            raise BadRequest(str(error)) from None
        except strategic_merge.ListOfLists:
            raise UnprocessablePatch from None
        except strategic_merge.CannotMerge as error:
            raise UnmergeablePatch(str(error)) from None
        # A strategic merge patch cannot change these.
        patched["apiVersion"], patched["kind"] = resource.api_version, resource.kind
        return patched

    return Patch(
        apply,
        problems,
        merges_maps=True,
        quoted=lambda patched: go_text(orjson.loads(body)),
        mismatch=lambda patched: mismatch_text(patched, resource.schema()),
    )


def apply_patch(
    patch: Patch,
    document: Document,
    resource: ServedResource,
    field_validation: str,
    before_schema: Callable[[Document], None],
) -> DecodedDocument:
    """Apply a patch to a document, which may be changed, and check the result against the schema.

    before_schema: see `decoding.rewriting_before_schema`.
    Raises Invalid, BadRequest, and what the patch raises.
    """
    patched = patch.apply(document)
    try:
        if not isinstance(patched, dict):
            raise TypeMismatch(
                f"json: cannot unmarshal {json_type(patched)} into Go value of type {resource.kind}"
            )
        if resource.is_custom:
            require_custom_kind(patched, resource)
        for field, expected in (("apiVersion", resource.api_version), ("kind", resource.kind)):
            if patched.get(field) != expected:
                raise TypeMismatch(
                    f'no kind "{patched.get("kind") or ""}" is registered for version '
                    f'"{patched.get("apiVersion") or ""}"'
                )
        before_schema(patched)
        decoded = check_schema(
            patched,
            resource,
            field_validation,
            lambda unknown: _all_problems(patch, resource, unknown),
            is_merged=patch.merges_maps,
        )
    except TypeMismatch as mismatch:
        try:
            quoted = patch.quoted(patched)
        except TypeError:
            raise BadRequest(f"the patched object is nested too deeply: {mismatch}") from None
        text = patch.mismatch(patched) if isinstance(patched, dict) else ""
        error = field_errors.invalid("patch", quoted, text or str(mismatch))
        raise Invalid(GroupKind("", ""), "", [error]) from None
    require_storable(patched, resource)
    if not isinstance(patched.get("metadata"), dict):
        patched["metadata"] = {}
    return decoded


def _all_problems(patch: Patch, resource: ServedResource, unknown: Sequence[str]) -> Sequence[str]:
    """Returns the problems of a patch, then those of the patched object, in Kubernetes' order.

    Kubernetes sorts the members of a patched object. It searches custom resources for unknown fields after
    they have been decoded.
    """
    if resource.definition:
        return [*patch.problems, *sorted([*patch.problems_in_object, *unknown], key=_path_in)]
    return [*patch.problems, *patch.problems_in_object, *unknown]


def _path_in(problem: str) -> str:
    """Returns the path that a message such as `unknown field "spec.x"` quotes."""
    return problem.partition('"')[2]
