"""The sandbox of a server's program: what it is confined to, and how; see `specs/sandbox.md`."""
