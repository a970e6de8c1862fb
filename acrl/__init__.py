"""acrl: do I want a critic? PPO with a value head against the critic-free family, on equal terms."""

__version__ = "0.1.0"
