"""What kinds of objects share: names, metadata, conditions, selectors, the options of verbs, table columns.

Nothing here does I/O or reads a clock; callers pass the time.
"""
