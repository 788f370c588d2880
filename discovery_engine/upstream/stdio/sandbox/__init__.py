"""What the program of a server is confined to, and how; see `specs/sandbox.md`."""
