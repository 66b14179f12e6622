"""Files of weights: read and written tensor by tensor, and converted from one layout to another.

Nothing is unpickled or run, and no number is computed with: entries are moved as they are stored.
"""
