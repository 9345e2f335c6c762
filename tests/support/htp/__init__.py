"""Nodes on the htp backend and on the vendor's simulator."""
