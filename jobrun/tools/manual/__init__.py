"""What the spec language has, as pages: made from the schema, so they cannot tell another story."""
