"""The command line: one command a file, one place that turns errors into one line."""
