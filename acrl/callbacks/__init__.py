"""What happens around iterations: budget, evaluation, record, samples, progress, signals, checkpoints."""
