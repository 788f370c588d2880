"""The HTTP API for programs and the page: the verbs of the library, each on a route of its own.

A module for each noun holds its routes; `application` serves and describes them. No route
has logic of its own: what it answers are the JSON forms of what the engine returns.
"""
