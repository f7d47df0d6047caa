"""Forms of documents on the wire other than JSON."""
