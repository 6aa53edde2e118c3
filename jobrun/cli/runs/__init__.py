"""Implement the commands about runs and checkpoints: status, logs, diff, report, ckpt and so on."""
