"""Releases of private draws by three routes: exact draws, Langevin chains, proven rejection."""
