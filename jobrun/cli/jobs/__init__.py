"""Implement the commands that execute jobs: run, resume, fork, stop, submit, sweep, prove, test."""
