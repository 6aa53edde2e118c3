"""Implement the commands about specs, which execute nothing: validate, plan, fmt, explain."""
