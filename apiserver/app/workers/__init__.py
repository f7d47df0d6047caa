"""`--workers N`: one supervising process and N server processes on the same port.

supervisor  starts, watches and stops the workers
slots       the worker processes, and when they are restarted
watchdog    finds workers whose event loop no longer turns
messages    the messages between supervisor and workers
channel     the supervisor's end of the connection to a worker
worker      a worker's end
scrapes     collects the metrics of all workers when any one of them is scraped
metrics     adds expositions up
"""
