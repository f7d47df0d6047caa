"""What all objects have in common: names, labels, metadata, and how they are selected and shown.

Nothing here does I/O or knows the time; who needs the time passes it in.
"""
