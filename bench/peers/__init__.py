"""Programs of the peers and of hither; each times itself and prints one JSON object."""
