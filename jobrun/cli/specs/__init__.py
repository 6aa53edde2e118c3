"""Implement the commands about a spec that execute nothing: validate, plan, fmt and so on."""
