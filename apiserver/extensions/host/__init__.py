"""The server's side of extensions: runs their functions, in worker processes or in its own.

    runner          the interface of both ways to run functions
    worker_process  one worker process, from its start to its end
    worker_runner   keeps a worker running, sends calls to it, and ends it if a function does not stop
    running_call    asks a worker which function runs at the moment
    call_schedule   decides in which order calls are sent, and which ones fail when the worker ends. Pure
    stop_requests   asks functions whose results nobody wants to stop
    pending_calls   the calls without a result, and the timer that ends late ones
    inline          runs functions with `inline=True`, in this process and without a runner
    local_runner    runs functions in this process, of extensions that tests pass as objects
    daemon_threads  threads for the functions of these that wait for the server
    hooks           the functions of all extensions, as other parts of the server call them
    access          authenticators and authorizers that are functions
    function_metrics  calls the functions of metrics
    event_stream    the events of watches, as the server reads them
    virtual_registry  reads and writes the objects of virtual resources
    virtual_objects  checks what their functions return

What it guarantees: a call is over within its time, whatever the function does. For functions that do not
return, only worker processes guarantee it.

Why this shape: the server imports no module of an extension, except for functions with `inline=True`. It
learns from the worker which functions there are, so that a module that cannot be imported, or ends the
process, does not harm it.
"""
