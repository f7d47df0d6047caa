"""The patch formats, one module each, the field validation of patches, and server-side apply (`apply`).

`json_patch` is imported in the functions that use it: with the library jsonpatch it takes half a megabyte,
and few servers see a JSON patch.
"""
