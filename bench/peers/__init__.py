"""Programs of the peers, and of hither beside them; each times itself and prints one JSON object."""
