"""Cases that attain the bounds of ``information.bounds``, or come as near as is known."""
