"""The JSON forms of what the engine returns: the same in the command line and in the API.

Keys are in snake_case, arrays are never null. Programs depend on these forms: keys are added, and
no key changes its meaning.
"""
