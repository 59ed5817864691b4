"""Text out of images."""
