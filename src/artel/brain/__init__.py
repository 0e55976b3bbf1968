"""The interface to language models, its clients, and the demo brain that works without a model."""
