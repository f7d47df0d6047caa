"""How the parts of an expression are evaluated. `compiler` chooses among these, and puts them together.

Each module makes runs: functions of a frame (`frames`), whose first item is what is left of the budget. A run
charges for what depends on values; what a part always costs is told to the compiler, which adds it up.
"""
