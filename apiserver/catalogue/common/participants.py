"""The names of requesters and responders of evictions, as `acme.io/foo`.

Source: k8s.io/apimachinery, pkg/api/validate, k8s-prefixed-label-key; pkg/apis/lifecycle/validation (1.37).
"""

from __future__ import annotations

from typing import Final

from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid
from apiserver.schema.validation.checks import named

# Domains whose names are of Kubernetes' own participants, of which users name none.
_RESERVED: Final = ("k8s.io", "kubernetes.io")


@names.cached
def participant_name(name: str) -> list[str]:
    """Returns the errors in the name of a requester or responder, which is a label key with a prefix."""
    if problems := names.qualified_name(name):
        return problems
    return [] if "/" in name else ["must include a prefix (e.g. 'example.com/key')"]


def validate_own_name(path: str, name: str) -> Errors:
    """Checks a name that a user sets: Kubernetes' domains are reserved."""
    domain = name.partition("/")[0].lower().strip().rstrip(".")
    errors: Errors = []
    if any(domain == each or domain.endswith(f".{each}") for each in _RESERVED):
        text = f"domain names {', '.join(f'*.{each}' for each in _RESERVED)} are reserved"
        errors.append(invalid(path, name, text))
    return errors + named(path, name, participant_name)
