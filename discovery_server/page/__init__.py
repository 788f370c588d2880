"""The page for people: its files, and the application that serves them.

`static` holds our own modules, readable as they are served. `static/modules` holds those of other
projects, which `scripts/page_modules.py` brings; `modules.json` pins them.
"""
