"""The same job in other tools, as their users write it, and what a kill does to each."""
