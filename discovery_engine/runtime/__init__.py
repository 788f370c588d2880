"""The parts that keep an engine running: listing, calls, state, maintenance, restored catalogs."""
