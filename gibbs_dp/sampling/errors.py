"""What can be wrong with a posterior itself."""


class ImproperPosteriorError(ValueError):
    """A posterior that cannot be normalized: it does not decay along some direction."""
