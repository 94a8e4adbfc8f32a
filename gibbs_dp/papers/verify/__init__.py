"""Every theorem and identity, both sides computed."""
