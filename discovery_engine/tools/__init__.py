"""The parts of a tool: its definition, its schema and the arguments of a call."""
