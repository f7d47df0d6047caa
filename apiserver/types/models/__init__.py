"""Reads classes of four kinds as one: dataclasses, pydantic models, msgspec structs and TypedDicts.

pydantic and msgspec are not imported: their classes are recognized by their attributes.
"""
