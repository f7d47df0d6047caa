"""The encodings of documents, and their media types.

orjson parses JSON; that of clients within the limits of `json_text`. `configuration_fields` reads objects in
configuration files.
"""
