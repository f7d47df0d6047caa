"""What is checked of core Events. Source: pkg/apis/core/validation, events.go, legacyValidateEvent."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from apiserver.field_errors import invalid, required
from apiserver.meta import names
from apiserver.schema.compile import Default
from apiserver.validation.checks import Errors
from apiserver.vocabulary import Document

DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType({})

_SHORT_MAX: Final = 128
_MESSAGE_MAX: Final = 1024


def validate_event(document: Document) -> Errors:
    """Events with an `eventTime` are new ones, which have to say more."""
    involved = document.get("involvedObject", {}).get("namespace", "")
    namespace = document["metadata"].get("namespace", "")
    is_new = bool(document.get("eventTime"))
    errors: Errors = []
    allowed = {"default", "kube-system"} if is_new else {"", "default"}
    if (involved and not is_new and involved != namespace) or (not involved and namespace not in allowed):
        errors.append(invalid("involvedObject.namespace", involved, "does not match event.namespace"))
    if is_new:
        errors += _new_fields(document)
    return errors + [invalid("namespace", namespace, problem) for problem in names.dns_subdomain(namespace)]


def _new_fields(document: Document) -> Errors:
    controller = document.get("reportingComponent", "")
    errors = [] if controller else [required("reportingController")]
    errors += [
        invalid("reportingController", controller, problem) for problem in names.qualified_name(controller)
    ]
    for field in ("reportingInstance", "action", "reason"):
        text = document.get(field, "")
        if not text:
            errors.append(required(field))
        errors += _not_longer(field, text, _SHORT_MAX)
    return errors + _not_longer("message", document.get("message", ""), _MESSAGE_MAX)


def _not_longer(path: str, text: str, limit: int) -> Errors:
    if len(text.encode("utf-8", "surrogatepass")) <= limit:
        return []
    return [invalid(path, "", f"can have at most {limit} characters")]
