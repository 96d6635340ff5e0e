"""Partitions of points and of graphs: k-means, neighbour graphs, spectral clustering, and the numbers of clusters."""
