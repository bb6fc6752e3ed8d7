"""Slow, obviously right versions of what fairopt computes, sharing no code with it."""
