"""Named fairness notions, each a Policy made of the blocks that a user has."""
