"""What runs and models did: reading logs and checkpoints, and reports."""
