"""How blocks on an instance are solved, and how every answer is proved."""
