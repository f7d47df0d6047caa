"""The patch formats, one module each, the field validation of patches, and server-side apply (`apply`)."""
