"""ONNX files as graphs: read within bounds, and never run."""
