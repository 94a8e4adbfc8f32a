"""What is learnt from draws: one file a quantity, and a registry of them all."""
