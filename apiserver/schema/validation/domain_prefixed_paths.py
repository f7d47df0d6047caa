"""The rule for names with the domain of their owner, as `example.com/controller`.

Source: k8s.io/apimachinery, pkg/util/validation, IsDomainPrefixedPath.
"""

from __future__ import annotations

import re
from typing import Final

from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid
from apiserver.schema.validation.checks import follows

_is_http_path = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+").fullmatch

_HTTP_PATH_TEXT: Final = (
    r"must be a valid HTTP path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')"
)


def validate_domain_prefixed_path(path: str, value: str) -> Errors:
    """Checks a domain followed by a path, as `example.com/controller`."""
    host, _, rest = value.partition("/")
    if not host or not rest:
        return [invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = follows(path, host, names.dns_subdomain)
    return errors if _is_http_path(rest) else [*errors, invalid(path, rest, _HTTP_PATH_TEXT)]
