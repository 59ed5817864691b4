"""The memory plan: what a model, a card and a wanted context take, before anything is loaded. Torch-free."""
