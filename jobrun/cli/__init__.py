"""The command line: parse, call, print. The only layer that knows click."""
