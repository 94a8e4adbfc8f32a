"""Cases that attain the bounds of ``information.bounds``, or come as close as is known."""
