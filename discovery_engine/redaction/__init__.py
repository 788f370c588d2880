"""Known secrets removed from text: log lines, events and the output of servers."""
