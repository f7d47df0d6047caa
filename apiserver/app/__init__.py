"""Builds every part of a server once, and wires the parts. Only this package sees all of them."""
