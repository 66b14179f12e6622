"""Layers and modules of the frameworks as implementations: what their weights and attributes mean."""
