"""`epochgate demo`: one fault, played twice on an embedded server: directly, then through the proxy."""
