"""Exact answers on finite problems and in closed form."""
