"""What answers for an agent: models behind one small interface, or the demo brain."""
