"""One verb each: its story, top to bottom.

Authentication, authorization and the deadline are already behind a handler. It has no `try`: errors rise
to the one middleware that makes them a Status.
"""
