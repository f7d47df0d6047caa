"""The encodings of documents other than JSON, and their media types."""
