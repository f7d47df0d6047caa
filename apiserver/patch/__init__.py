"""The patch formats, one module each, and the field validation of patches."""
