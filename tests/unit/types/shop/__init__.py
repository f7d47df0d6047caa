"""One type, written as dataclasses, pydantic models, msgspec structs and TypedDicts."""
