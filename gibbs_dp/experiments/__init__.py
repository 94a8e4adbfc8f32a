"""Small programs over the rest of the library."""
