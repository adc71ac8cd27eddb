"""The processes of one machine: workers that audit rows, workers that hold a model, the server that forks them."""
