"""The language: shares, objectives and constraints, and the model in which they are written."""
