"""The functions of expressions, one library per module."""
