"""The encodings of documents, and their media types.

orjson parses JSON; that of clients within the bounds of `json_text`. The objects in configuration files are
read by `configuration_fields`.
"""
