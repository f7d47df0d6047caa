"""What is said to a conversion webhook, and what it may answer.

A webhook may change everything of an object but what it is: of its metadata only labels and annotations are
taken over. What it answers otherwise is refused, in Kubernetes' words.
Source: k8s.io/apiextensions-apiserver, pkg/apiserver/conversion/{converter,webhook_converter}.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from apiserver.meta import object_meta
from apiserver.schema.compile import json_type
from apiserver.vocabulary import Document

# The newest first; which of them is spoken is the definition's choice.
REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_KIND: Final = "ConversionReview"
_CONVERTED_META: Final = ("labels", "annotations")


class WebhookError(Exception):
    """A webhook has answered what it must not. The message is for the client."""


def review_version(accepted: Sequence[str]) -> str | None:
    """The first version of reviews that both sides know."""
    return next((each for each in accepted if each in REVIEW_VERSIONS), None)


def review(group: str, version: str, uid: str, objects: Sequence[Document], desired: str) -> Document:
    """group: of definitions. desired: the apiVersion that is wanted."""
    return {
        "kind": _KIND,
        "apiVersion": f"{group}/{version}",
        "request": {"uid": uid, "desiredAPIVersion": desired, "objects": list(objects)},
    }


def converted(
    answer: Any, group: str, version: str, uid: str, objects: Sequence[Document], desired: str
) -> list[Document]:
    """What `answer` says that `objects` are in the version that is wanted. Raises BadAnswer."""
    subject = f"conversion webhook for {gvk(objects[0])}"
    try:
        given = _given(answer, group, version, uid)
    except WebhookError as error:
        raise WebhookError(f"{subject} failed: {error}") from None
    if len(given) != len(objects):
        raise WebhookError(f"{subject} returned {len(given)} objects, expected {len(objects)}")
    documents = []
    for index, (original, each) in enumerate(zip(objects, given, strict=True)):
        try:
            documents.append(_checked(original, each, desired))
        except WebhookError as error:
            raise WebhookError(
                f"{subject} returned invalid converted object at index {index}: {error}"
            ) from None
    return documents


def gvk(document: Document) -> str:
    """As Go shows a kind: `example.com/v1, Kind=Widget`."""
    return f"{document.get('apiVersion', '')}, Kind={document.get('kind', '')}"


def _given(answer: Any, group: str, version: str, uid: str) -> list[Any]:
    if not isinstance(answer, dict):
        raise WebhookError("couldn't get version/kind; json parse error: the answer is not an object")
    expected = {"apiVersion": f"{group}/{version}", "kind": _KIND}
    if version == "v1" and (answer.get("apiVersion"), answer.get("kind")) != tuple(expected.values()):
        raise WebhookError(f"expected webhook response of {gvk(expected)}, got {gvk(answer)}")
    response = answer.get("response")
    if not isinstance(response, dict):
        raise WebhookError("no response provided")
    if version == "v1" and response.get("uid") != uid:
        raise WebhookError(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    if result.get("status") != "Success":
        said = result.get("message")
        status = result.get("status", "")
        raise WebhookError(str(said) if said else f"response.result.status was '{status}', not 'Success'")
    given = response.get("convertedObjects") or []
    if not isinstance(given, list):
        raise WebhookError("response.convertedObjects is not a list")
    return given


def _checked(original: Document, given: Any, desired: str) -> Document:
    """The converted object with the metadata that it may have. Raises BadAnswer."""
    if not isinstance(given, dict):
        raise WebhookError(f"it is no object but {json_type(given)}")
    if given.get("apiVersion") != desired:
        received = given.get("apiVersion", "")
        raise WebhookError(f"invalid groupVersion (expected {desired}, received {received})")
    if given.get("kind") != original["kind"]:
        raise WebhookError(f"invalid kind (expected {original['kind']}, received {given.get('kind', '')})")
    meta = given.get("metadata")
    if meta is None:
        raise WebhookError("missing metadata in converted object")
    if not isinstance(meta, dict):
        raise WebhookError(f"invalid metadata of type {json_type(meta)} in converted object")
    own = original["metadata"]
    for field in ("name", "namespace", "uid"):
        if (expected := own.get(field) or "") != (found := meta.get(field) or ""):
            shown = field.upper() if field == "uid" else field
            raise WebhookError(f"must have the same {shown}: {expected} != {found}")
    kept = {key: value for key, value in own.items() if key not in _CONVERTED_META}
    for field in _CONVERTED_META:
        if (texts := _texts(field, meta.get(field), own.get(field) or {})) is not None:
            kept[field] = texts
    rest = {key: value for key, value in given.items() if key not in ("apiVersion", "kind", "metadata")}
    return {"apiVersion": desired, "kind": original["kind"], "metadata": kept, **rest}


def _texts(field: str, given: Any, own: dict[str, str]) -> dict[str, str] | None:
    """Labels or annotations as the webhook has them, if they may be so. Raises BadAnswer."""
    if given is None:
        return None
    if not isinstance(given, dict):
        raise WebhookError(f"invalid metadata.{field} of type {json_type(given)} in converted object")
    for key, value in given.items():
        if not isinstance(value, str):
            raise WebhookError(
                f"metadata.{field}[{key}] must be a string, but is {json_type(value)} in converted object"
            )
    if given != own:
        check = (
            object_meta.validate_labels(given, "metadata.labels")
            if field == "labels"
            else object_meta.validate_annotations(given)
        )
        if check:
            raise WebhookError(", ".join(dict.fromkeys(map(str, check))))
    return given or None
