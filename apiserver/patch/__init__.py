"""Patch formats, one module each: a document and a patch make a new document."""
