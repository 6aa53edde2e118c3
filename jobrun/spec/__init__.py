"""What a user may write, and where it stands. The only layer that knows YAML and pydantic."""
