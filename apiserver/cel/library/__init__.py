"""The functions that expressions may call, one library to a module."""
