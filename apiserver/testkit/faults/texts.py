"""Faults as text, for people."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


def text_of(value: Any) -> str:
    """Returns a match or an effect as it is written in Python, without what is as by default."""
    said = ((field.name, getattr(value, field.name), field.default) for field in fields(value))
    shown = ", ".join(f"{name}={found!r}" for name, found, default in said if found != default)
    return f"{type(value).__name__}({shown})"
