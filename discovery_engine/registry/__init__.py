"""The catalog, decisions and vectors that are kept between runs: one protocol for each concern.

`protocols` says what a back-end promises; `backends` opens one by its URL. Code that needs one
concern takes that protocol, not the whole registry.
"""
