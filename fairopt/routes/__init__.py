"""How blocks on an instance are solved."""
