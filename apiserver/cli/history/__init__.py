"""`apiserver history`: commands about the history of objects, on a server that runs with `--history`.

command        the parser, with a module for each subcommand
listing        which versions the object has had, and who made them
changes        what has changed lately in all objects
diff           what has changed between two moments
undo           takes changes back
object_undo    takes changes of one object back
reverts        computes the object without a change
blame          the author of each line
line_authors   finds the version that has made each line
purge          removes from the history what must be forgotten
changes_client reads the changes of all objects
object_client  sends requests about the object that the arguments name
moments        moments as users write them, as `@-2h`
"""
