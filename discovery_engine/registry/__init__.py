"""What is remembered between runs: `store` says what is promised, the others keep it."""
