"""Proving a job: kill it at many places, resume it, and compare with unbroken runs."""
