"""Draw a job: Mermaid, Graphviz, SVG, or characters.

- ``outline``: the groups, labels and edges that every drawing shows.
- ``diagrams``: characters, Mermaid, Graphviz. ``svg``: a picture.
"""
