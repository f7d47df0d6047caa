"""What the functions of an extension raise, what their client raises, and the error for one that is declared
wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class InvalidExtension(Exception):
    """An extension is declared wrong; the message says where and how."""


class Denied(Exception):
    """Refuses a write, with an error response to the client.

    message: the reason, for people. field: the path of the field to blame, such as `spec.replicas`; it
    becomes the cause in the response. reason: as in a Kubernetes Status. code: the status code of the
    response, 400 to 499.
    """

    def __init__(self, message: str, *, field: str = "", reason: str = "Forbidden", code: int = 403) -> None:
        if not 400 <= code <= 499:
            raise ValueError(f"code must be 400 to 499, not {code}")
        super().__init__(message)
        self.message, self.field, self.reason, self.code = message, field, reason, code

    def status(self) -> dict[str, Any]:
        """Returns the refusal as the `status` of an admission response."""
        status: dict[str, Any] = {"message": self.message, "reason": self.reason, "code": self.code}
        if self.field:
            status["details"] = {"causes": [{"message": self.message, "field": self.field}]}
        return status


class ApiError(Exception):
    """The server has refused a request of the client, or could not be reached.

    code: the status code of the response; 0 if there is none. reason: as in a Kubernetes Status, such as
    `AlreadyExists`; empty if unknown. status: the Status, as a document.
    """

    def __init__(self, code: int, status: Mapping[str, Any]) -> None:
        self.code, self.status = code, status
        self.reason, self.message = str(status.get("reason") or ""), str(status.get("message") or "")
        super().__init__(self.message)

    @classmethod
    def of(cls, code: int, status: Mapping[str, Any]) -> ApiError:
        """Returns an error of the class for its code."""
        return _BY_CODE.get(code, cls)(code, status)


class NotFound(ApiError):
    """The object does not exist, or its resource is not served."""


class Conflict(ApiError):
    """The object has changed since it was read, or exists already, or another manager owns the fields."""


_BY_CODE: Mapping[int, type[ApiError]] = {404: NotFound, 409: Conflict}
