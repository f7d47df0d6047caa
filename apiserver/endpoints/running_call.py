"""Says which call a stack works for: what a log line about a stall of the event loop names."""

from __future__ import annotations

from types import FrameType
from typing import Final

from apiserver.endpoints.api_call import ApiCall

# Paths are clients' own words.
_PATH_LENGTH_MAX: Final = 100
_CALL: Final = "call"


def running_operation(frame: FrameType) -> str:
    """Returns verb and resource of the call that a stack works for, or method and path; "" if it is none.

    frame: the stack's innermost. Every middleware and handler has its call in a variable of the same name.
    """
    each: FrameType | None = frame
    while each is not None:
        if _CALL in each.f_code.co_varnames and isinstance(call := each.f_locals.get(_CALL), ApiCall):
            return _operation(call)
        each = each.f_back
    return ""


def _operation(call: ApiCall) -> str:
    info = call.info
    if call.resource is None:
        return f"{ascii(info.method)[1:-1]} {ascii(info.path[:_PATH_LENGTH_MAX])[1:-1]}"
    resource = str(call.resource.group_resource)
    return f"{info.verb} {resource}/{info.subresource}" if info.subresource else f"{info.verb} {resource}"
