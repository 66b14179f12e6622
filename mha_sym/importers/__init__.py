"""User code as expressions: graphs of array operations, and how they become expressions with named axes.

`graph` holds the graph that every front end makes, `fold` simplifies it, `run` executes it, `lift` turns it into an
expression.  There is one file for each front end; none is imported before it is wanted.
"""
