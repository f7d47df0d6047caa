"""Connections that cost more to keep than to open."""

from __future__ import annotations

from tests.hostile.attack import Attacker, attack


@attack("8 connections", processes=2)
async def idle_connections(attacker: Attacker) -> None:
    """5,000 connections are opened and left idle."""
    await attacker.hold(attacker.times(2_500), b"")
