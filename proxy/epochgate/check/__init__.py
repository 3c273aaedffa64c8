"""`epochgate check`: which of the four conditions of a valid resume a server keeps."""
