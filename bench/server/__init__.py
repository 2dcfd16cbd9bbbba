"""`hither serve`, beside other servers and under load."""
