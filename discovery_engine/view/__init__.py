"""An immutable snapshot to answer from: search answers, server status, addresses and notices."""
