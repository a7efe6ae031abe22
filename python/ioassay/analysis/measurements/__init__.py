"""What analyses start from: the repetitions of each condition, logs, monitors' rates, passes and loads."""
