"""`--workers N`: one supervising process and N server processes on the same port."""
