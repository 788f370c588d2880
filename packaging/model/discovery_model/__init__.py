"""The files of a sentence model, for `mcp-discovery-engine`: `model.onnx` and `tokenizer.json`."""
