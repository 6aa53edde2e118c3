"""Running one spec at many points of its params, each as an ordinary run."""
