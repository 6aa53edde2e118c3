"""From a spec to a graph, with all checks. Pure: reads no disk, executes and imports nothing."""
